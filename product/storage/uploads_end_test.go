package storage_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// The reservation of an upload ends when it is aborted, and when it expires. Nothing is left in the object store.
func TestUploadsEnd(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.limits.ProjectBytes = 10
	u := f.begin(storage.NewUpload{Path: path("f"), Size: 6})
	_, err := f.api.BeginUpload(f.ctx(), f.scope(), storage.NewUpload{Path: path("g"), Size: 5})
	wantCode(t, "both are over the quota", err, errs.StorageQuotaExceeded)
	f.mustPutPart(u, 1, []byte("abcdef"))
	for range 2 {
		wantCode(t, "abort", f.abort(u), "")
	}
	f.wantUsage(0, 0, 0)
	_, err = f.putPart(u, 1, []byte("abcdef"))
	wantCode(t, "a part", err, errs.StorageObjectNotFound)
	_, _, err = f.complete(u, nil)
	wantCode(t, "complete", err, errs.StorageObjectNotFound)

	u = f.begin(storage.NewUpload{Path: path("f"), Size: 6})
	f.mustPutPart(u, 1, []byte("abcdef"))
	f.exec(`UPDATE storage_uploads SET expires_at = now()`)
	_, err = f.putPart(u, 1, []byte("abcdef"))
	wantCode(t, "a part of an expired one", err, errs.StorageObjectNotFound)
	if due, err := f.work.Due(f.ctx()); err != nil || !due {
		t.Errorf("due: %v %v", due, err)
	}
	f.cleanUp()
	f.wantUsage(0, 0, 0)
	if left := f.backendUploads(); left != 0 {
		t.Errorf("%d uploads are left", left)
	}
	if rows, err := f.keys(`SELECT id FROM storage_uploads WHERE project_id = $1`); err != nil || len(rows) != 0 {
		t.Errorf("%d rows are left, %v", len(rows), err)
	}
}

func (f *fixture) backendUploads() (n int) {
	f.t.Helper()
	for _, err := range f.blobs.Uploads(f.ctx(), time.Now().Add(time.Hour)) {
		if err != nil {
			f.t.Fatal(err)
		}
		n++
	}
	return n
}

// A process that was killed between object store and row leaves an upload that only the object store knows.
func TestForgottenUploads(t *testing.T) {
	t.Parallel()
	f := setup(t)
	u := f.begin(storage.NewUpload{Path: path("f"), Size: 6})
	forgotten, err := f.blobs.Begin(f.ctx(), ids.New[ids.Project]().UUID)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.abortForgotten(); err != nil || f.backendUploads() != 2 {
		t.Errorf("%d uploads, %v", f.backendUploads(), err)
	}
	f.work.Clock = clock.At(func() time.Time { return time.Now().Add(48 * time.Hour) })
	if err := f.abortForgotten(); err != nil || f.backendUploads() != 1 {
		t.Errorf("%d uploads, %v", f.backendUploads(), err)
	}
	if _, err := f.blobs.Parts(f.ctx(), forgotten); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("the forgotten one: %v", err)
	}
	f.mustPutPart(u, 1, []byte("abcdef"))
}

// A repeated request does not begin a second upload.
func TestCreateUploadOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	n := storage.NewUpload{Path: path("f"), Size: 6}
	ch := identity.Change[storage.Upload]{Caller: f.caller, Key: identity.Key{Principal: f.caller.Principal(), Key: "k", Method: "POST", Route: "/r"}, Answer: func(u storage.Upload) identity.Reply {
		return identity.Reply{Status: 201, Body: []byte(u.ID.String())}
	}}
	u, err := f.api.CreateUpload(f.ctx(), ch, n)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.api.CreateUpload(f.ctx(), ch, n)
	wantCode(t, "again", err, errs.IdempotencyInFlight)
	if r, found, err := f.api.Identity.Replay(f.ctx(), ch.Key); err != nil || !found || string(r.Body) != u.ID.String() {
		t.Errorf("%s %v %v", r.Body, found, err)
	}
	f.wantUsage(0, 6, 0)
	if n := f.backendUploads(); n != 1 {
		t.Errorf("%d uploads", n)
	}
}
