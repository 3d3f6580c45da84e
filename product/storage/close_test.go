package storage_test

import (
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/storage"
)

// closeProject does with the files what the closing of a project does.
func (f *fixture) closeProject() error {
	return pgx.BeginFunc(f.ctx(), f.db, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`UPDATE projects SET deleted_at = now() WHERE id = $1`, f.caller.Project)
		storage.QueueEmpty(b, f.caller.Project)
		return tx.SendBatch(f.ctx(), b).Close()
	})
}

// A project with an upload is not closed, also if the upload has reserved no byte. What the cleanup job has still to delete does
// not prevent the end of a project, and is deleted afterwards.
func TestAProjectWithAnUploadIsNotClosed(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, size := range []int64{-1, 0, 3} {
		u := f.begin(storage.NewUpload{Path: path("f"), Size: size})
		wantCode(t, "with an upload", f.closeProject(), errs.ProjectNotEmpty)
		if err := f.abort(u); err != nil {
			t.Fatal(err)
		}
	}
	f.mustPut("a", "1")
	f.mustPut("a", "22")
	wantCode(t, "with a file", f.closeProject(), errs.ProjectNotEmpty)
	if _, err := f.remove("a"); err != nil {
		t.Fatal(err)
	}
	f.exec(`UPDATE storage_objects SET purge_at = now() WHERE purge_at IS NOT NULL`)
	if err := f.work.PurgeDeleted(f.ctx()); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "an empty one", f.closeProject(), "")
	_, err := f.put("b", "1")
	wantCode(t, "a file of a closed project", err, errs.NotFound)
	wantCode(t, "a folder of a closed project", f.mkdir("c"), errs.NotFound)
	_, err = f.api.BeginUpload(f.ctx(), f.scope(), storage.NewUpload{Path: path("d"), Size: -1})
	wantCode(t, "an upload of a closed project", err, errs.NotFound)
	f.cleanUp()
	if n, _ := f.backend(); n != 0 {
		t.Errorf("%d backend objects are left", n)
	}
	if n := f.backendUploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
	f.wantUsage(0, 0, 0)
}

// closing closes a project before its first byte.
type closing struct {
	f     *fixture
	first sync.Once
	err   error
}

func (c *closing) Read([]byte) (int, error) {
	c.first.Do(func() { c.err = c.f.closeProject() })
	return 0, io.EOF
}

// A file whose upload in one request has reserved no byte yet does not appear in a closed project.
func TestAProjectIsClosedDuringAnUpload(t *testing.T) {
	t.Parallel()
	f := setup(t)
	body := &closing{f: f}
	_, _, err := f.api.Upload(f.ctx(), f.scope(), storage.NewFile{Path: path("f"), Size: -1}, body)
	wantCode(t, "closing", body.err, "")
	wantCode(t, "the upload", err, errs.NotFound)
	f.wantUsage(0, 0, 0)
	f.cleanUp()
	if n, _ := f.backend(); n != 0 {
		t.Errorf("%d backend objects are left", n)
	}
}

// Either the project is closed or the upload begins, never both: in a project that has stored something before, and in one that
// has not.
func TestClosingAProjectRacesWithAnUpload(t *testing.T) {
	t.Parallel()
	f := setup(t)
	won := map[bool]int{}
	for round := range 60 {
		p := f.other(f.caller.Tenant)
		if round%2 == 0 {
			u := p.begin(storage.NewUpload{Path: path("f"), Size: -1})
			if err := p.abort(u); err != nil {
				t.Fatal(err)
			}
		}
		var closed, begun error
		var both sync.WaitGroup
		start := make(chan struct{})
		both.Go(func() {
			<-start
			_, begun = p.api.BeginUpload(p.ctx(), p.scope(), storage.NewUpload{Path: path("f"), Size: -1})
		})
		both.Go(func() {
			<-start
			closed = p.closeProject()
		})
		close(start)
		both.Wait()
		if (closed == nil) == (begun == nil) || errs.CodeOf(errors.Join(closed, begun)) != map[bool]errs.Code{true: errs.NotFound, false: errs.ProjectNotEmpty}[closed == nil] {
			t.Fatalf("round %d: closing it ended with %v, the upload with %v", round, closed, begun)
		}
		won[closed == nil]++
	}
	t.Logf("closed: %d, begun: %d", won[true], won[false])
}

// A tenant whose uploads have reserved no byte is not empty either.
func TestATenantWithAnUploadIsNotEmpty(t *testing.T) {
	t.Parallel()
	f := setup(t)
	foreign := f.other(ids.New[ids.Tenant]())
	foreign.begin(storage.NewUpload{Path: path("f"), Size: -1})
	f.begin(storage.NewUpload{Path: path("f"), Size: -1})
	f.begin(storage.NewUpload{Path: path("g"), Size: 5})
	f.mustPut("a", "12")
	var r storage.Remaining
	err := pgx.BeginFunc(f.ctx(), f.db, func(tx pgx.Tx) (err error) {
		r, err = f.api.Remaining(f.ctx(), tx, f.caller.Tenant)
		return err
	})
	if want := (storage.Remaining{Objects: 1, Bytes: 7, Uploads: 2}); err != nil || r != want {
		t.Errorf("%+v, want %+v: %v", r, want, err)
	}
}
