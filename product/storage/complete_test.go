package storage_test

import (
	"bytes"
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// brokenReads is an object store whose reads end after some bytes.
type brokenReads struct {
	blob.Store

	after  int64
	read   []int64 // the offsets
	before func()
}

func (b *brokenReads) Get(ctx context.Context, id uuid.UUID, offset, length int64) (io.ReadCloser, error) {
	b.read = append(b.read, offset)
	if b.before != nil {
		b.before()
	}
	from, err := b.Store.Get(ctx, id, offset, length)
	if b.after == 0 || err != nil {
		return from, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(from, b.after), pieces{bytes.NewReader(nil), context.Canceled}), from}, nil
}

// A completion that ends while it reads the file continues there when it is repeated.
func TestCompletionContinues(t *testing.T) {
	t.Parallel()
	f := setup(t)
	store := &brokenReads{Store: f.blobs, after: 1000}
	f.api.Blobs = store
	u := f.beginContent("f")
	for n := 1; n <= 3; n++ {
		f.mustPutPart(u, n, part(n))
	}
	for range 2 {
		_, _, err := f.complete(u, nil)
		wantCode(t, "a broken read", err, errs.Unavailable)
	}
	_, err := f.putPart(u, 1, part(1))
	wantCode(t, "a part of joined ones", err, errs.Conflict)
	store.after = 0
	if o, _, err := f.complete(u, nil); err != nil || !bytes.Equal(o.SHA256, sumOf(content)) {
		t.Errorf("%+v %v", o, err)
	}
	if !slices.Equal(store.read, []int64{0, 1000, 2000}) {
		t.Errorf("read from %v", store.read)
	}
	f.wantUsage(int64(len(content)), 0, 1)
}

// The condition is that of the moment in which the file appears.
func TestConditionOfAnUpload(t *testing.T) {
	t.Parallel()
	f := setup(t)
	u := f.begin(storage.NewUpload{Path: path("f"), Size: 3, If: storage.Condition{Absent: true}})
	f.mustPutPart(u, 1, []byte("abc"))
	old := f.mustPut("f", "first")
	_, _, err := f.complete(u, nil)
	wantCode(t, "complete", err, errs.VersionMismatch)
	_, err = f.api.BeginUpload(f.ctx(), f.scope(), storage.NewUpload{Path: path("f"), Size: 3, If: storage.Condition{Absent: true}})
	wantCode(t, "begin", err, errs.VersionMismatch)
	f.wantUsage(5, 3, 1)
	if _, err := f.remove("f"); err != nil {
		t.Fatal(err)
	}
	if _, created, err := f.complete(u, nil); err != nil || !created {
		t.Errorf("%v %v", created, err)
	}
	// Another file appears while the completion reads the bytes.
	f.api.Blobs = &brokenReads{Store: f.blobs, before: func() {
		if _, err := f.put("g", "another"); err != nil {
			t.Error(err)
		}
	}}
	late := f.begin(storage.NewUpload{Path: path("g"), Size: 3, SHA256: sumOf([]byte("abc")), If: storage.Condition{Absent: true}})
	f.mustPutPart(late, 1, []byte("abc"))
	_, _, err = f.complete(late, nil)
	wantCode(t, "complete after another file", err, errs.VersionMismatch)
	f.api.Blobs = f.blobs
	u = f.begin(storage.NewUpload{Path: path("f"), Size: 3, If: storage.Condition{ETag: "*"}})
	f.mustPutPart(u, 1, []byte("xyz"))
	if o, created, err := f.complete(u, nil); err != nil || created || o.ID == old.ID {
		t.Errorf("%+v %v %v", o, created, err)
	}
}

// The condition of a completion is that of the moment in which the file appears, too. A repetition does not compare it.
func TestConditionOfACompletion(t *testing.T) {
	t.Parallel()
	f := setup(t)
	u := f.begin(storage.NewUpload{Path: path("f"), Size: 3, SHA256: sumOf([]byte("abc"))})
	f.mustPutPart(u, 1, []byte("abc"))
	completed := func(c storage.Condition) error {
		_, _, err := f.api.CompleteUpload(f.ctx(), f.scope(), u.ID, storage.Completion{If: c})
		return err
	}
	wantCode(t, "without a file", completed(storage.Condition{ETag: "*"}), errs.VersionMismatch)
	if n := f.backendUploads(); n != 1 {
		t.Errorf("%d uploads: the parts were joined for nothing", n)
	}
	f.api.Blobs = &brokenReads{Store: f.blobs, before: func() {
		if _, err := f.put("f", "another"); err != nil {
			t.Error(err)
		}
	}}
	wantCode(t, "another file appears meanwhile", completed(storage.Condition{Absent: true}), errs.VersionMismatch)
	f.api.Blobs = f.blobs
	if text, err := f.read("f"); text != "another" {
		t.Errorf("the file is %q, %v", text, err)
	}
	wantCode(t, "a file", completed(storage.Condition{ETag: "*"}), "")
	wantCode(t, "a repetition", completed(storage.Condition{Absent: true}), "")
}

// Repeated completions do not extend an upload for ever.
func TestCompletionsExtendAnUploadOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.api.Blobs = &brokenReads{Store: f.blobs, after: 1}
	u := f.begin(storage.NewUpload{Path: path("f"), Size: 3, SHA256: sumOf([]byte("abc"))})
	f.mustPutPart(u, 1, []byte("abc"))
	left := func() (d time.Duration) {
		t.Helper()
		_, _, err := f.complete(u, nil)
		wantCode(t, "a broken read", err, errs.Unavailable)
		if err := f.db.QueryRow(f.ctx(), `SELECT u.expires_at - now() FROM storage_uploads u JOIN storage_reservations r ON r.object_key = u.id AND r.expires_at = u.expires_at WHERE u.id = $1`, u.ID).Scan(&d); err != nil {
			t.Fatal(err)
		}
		return d.Round(time.Minute)
	}
	if d := left(); d != 24*time.Hour {
		t.Errorf("a new upload ends in %s", d)
	}
	f.exec(`UPDATE storage_uploads SET created_at = now() - interval '20 hours', expires_at = now() + interval '4 hours' WHERE id = $1`, u.ID)
	f.exec(`UPDATE storage_reservations SET expires_at = (SELECT expires_at FROM storage_uploads WHERE id = $1)`, u.ID)
	if d := left(); d != 5*time.Hour {
		t.Errorf("an old upload ends in %s, want the life of an upload and a day after its beginning", d)
	}
}
