//go:build failpoint

package storage_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/failpoint/killtest"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/blob/files"
)

// TestMain runs this binary as a server that does one step, if it was started as one: only a process of its own can be
// killed.
func TestMain(m *testing.M) { killtest.Main(m, "STORAGE_TEST_STEP", runStep) }

func runStep(ctx context.Context, step string) error {
	db, err := pg.Open(ctx, os.Getenv("STORAGE_TEST_DB"), "test", 2)
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := files.Open(os.Getenv("STORAGE_TEST_DIR"), clock.Clock{})
	if err != nil {
		return err
	}
	f := &fixture{limits: &storage.Limits{ProjectBytes: 1 << 30, TenantBytes: 1 << 30, ProjectObjects: 1000, TenantObjects: 1000, ObjectBytes: 1 << 28, Trash: time.Hour, UploadLife: time.Hour}}
	f.api = &storage.Service{DB: db, Identity: &identity.Service{DB: db}, Blobs: store, Naming: ids.DefaultNaming, Limits: func(ids.Tenant, ids.Project) storage.Limits { return *f.limits }}
	f.caller.Tenant, _ = ids.Parse[ids.Tenant](os.Getenv("STORAGE_TEST_TENANT"))
	f.caller.Project, _ = ids.Parse[ids.Project](os.Getenv("STORAGE_TEST_PROJECT"))
	upload, _ := uuid.Parse(os.Getenv("STORAGE_TEST_UPLOAD"))
	return errors.Join(steps[step](f, storage.Upload{ID: upload}), store.Close())
}

// steps are interrupted. A step that is done already may fail with a code.
var steps = map[string]func(f *fixture, u storage.Upload) error{
	"upload": func(f *fixture, _ storage.Upload) error { _, err := f.put("new", "abcdef"); return err },
	"begin": func(f *fixture, _ storage.Upload) error {
		_, err := f.api.BeginUpload(f.ctx(), f.scope(), storage.NewUpload{Path: path("new"), Size: 6})
		return err
	},
	"part":     func(f *fixture, u storage.Upload) error { _, err := f.putPart(u, 1, []byte("abcdef")); return err },
	"complete": func(f *fixture, u storage.Upload) error { _, _, err := f.complete(u, nil); return err },
	"abort":    func(f *fixture, u storage.Upload) error { return f.abort(u) },
	"rename": func(f *fixture, _ storage.Upload) error {
		return done(f.rename("old", "renamed"), errs.StorageObjectNotFound)
	},
	"delete": func(f *fixture, _ storage.Upload) error {
		_, err := f.remove("old")
		return done(err, errs.StorageObjectNotFound)
	},
	"clean up": func(f *fixture, _ storage.Upload) error { return f.api.CleanUp(f.ctx()) },
}

func done(err error, code errs.Code) error {
	if errs.CodeOf(err) == code {
		return nil
	}
	return err
}

// interruptions are the points of each step, and the files after its repetition.
var interruptions = []struct{ points, step, after string }{
	{"storage.upload.", "upload", "new old"},
	{"storage.begin.", "begin", "old"},
	{"storage.part.", "part", "old"},
	{"storage.complete.", "complete", "new old"},
	{"storage.abort.", "abort", "old"},
	{"storage.change.", "rename", "renamed"},
	{"storage.change.", "delete", ""},
	{"storage.purge.", "clean up", "old"},
	{"storage.collect.", "clean up", "old"},
}

// A process is killed at each point of a change. What a tenant sees is the state before or after it, the usage is exact, and
// after the cleanup job, with or without a repetition before it, the object store contains the bytes of the files only.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, point := range failpoint.Points {
		if !strings.HasPrefix(point, "storage.") {
			continue
		}
		found := false
		for _, i := range interruptions {
			if strings.HasPrefix(point, i.points) {
				found = true
				t.Run(point+" "+i.step, func(t *testing.T) {
					t.Parallel()
					killedStep(t, point, i.step, i.after, true)
				})
				t.Run(point+" "+i.step+" once", func(t *testing.T) {
					t.Parallel()
					killedStep(t, point, i.step, i.after, false)
				})
			}
		}
		if !found {
			t.Errorf("no step passes %s", point)
		}
	}
}

func killedStep(t *testing.T, point, step, after string, repeat bool) {
	t.Helper()
	dir := t.TempDir()
	store, err := files.Open(dir, clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	f := setupWith(t, store)
	f.mustPut("old", "old bytes")
	var u storage.Upload
	switch step {
	case "part", "complete", "abort":
		if u = f.begin(storage.NewUpload{Path: path("new"), Size: 6, SHA256: sumOf([]byte("abcdef"))}); step != "part" {
			f.mustPutPart(u, 1, []byte("abcdef"))
		}
	case "clean up":
		f.mustPut("deleted/file", "deleted bytes")
		if _, err := f.remove("deleted"); err != nil {
			t.Fatal(err)
		}
		f.exec(`UPDATE storage_objects SET purge_at = now() WHERE purge_at IS NOT NULL`)
	}
	child := killtest.New(t, point, "STORAGE_TEST_STEP="+step, "STORAGE_TEST_DB="+f.db.Config().ConnString(), "STORAGE_TEST_DIR="+dir, "STORAGE_TEST_UPLOAD="+u.ID.String(),
		"STORAGE_TEST_TENANT="+f.caller.Tenant.String(), "STORAGE_TEST_PROJECT="+f.caller.Project.String())
	run := func() (dead bool) {
		_, dead = child.Run(t.Context(), t)
		return dead
	}
	if !run() {
		t.Fatal("it was not killed")
	}
	seen := strings.Join(f.list("", true, 10), " ")
	if seen != "old" && seen != after {
		t.Errorf("after the kill there are %q", seen)
	}
	if lost := f.broken(); lost != "" {
		t.Error(lost)
	}
	f.reservedIsExact()
	if !repeat {
		f.wantWhole(seen)
		return
	}
	if run() {
		t.Fatal("it was killed twice")
	}
	f.wantWhole(after)
}

// reservedIsExact compares the reserved bytes of the usage with the reservations.
func (f *fixture) reservedIsExact() {
	f.t.Helper()
	var sum int64
	if err := f.db.QueryRow(f.ctx(), `SELECT coalesce(sum(bytes), 0)::bigint FROM storage_reservations WHERE project_id = $1`, f.caller.Project).Scan(&sum); err != nil {
		f.t.Fatal(err)
	}
	if u := f.usage(); u.Reserved != sum || u.TenantBytes != u.Bytes+sum {
		f.t.Errorf("%+v, and %d bytes in reservations", u, sum)
	}
}

// wantWhole cleans up, and compares files, usage and object store.
func (f *fixture) wantWhole(after string) {
	f.t.Helper()
	if seen := strings.Join(f.list("", true, 10), " "); seen != after {
		f.t.Errorf("there are %q, want %q", seen, after)
	}
	f.work.Clock = clock.At(func() time.Time { return time.Now().Add(48 * time.Hour) })
	f.cleanUp()
	if err := f.abortForgotten(); err != nil {
		f.t.Fatal(err)
	}
	if lost := f.broken(); lost != "" {
		f.t.Error(lost)
	}
	u := f.usage()
	n, size := f.backend()
	if files := len(strings.Fields(after)); n != files || size != u.Bytes || u.Reserved != 0 || u.Objects != int64(files) || f.backendUploads() != 0 {
		f.t.Errorf("%d backend objects with %d bytes, %d uploads, %+v", n, size, f.backendUploads(), u)
	}
}
