package storage_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/blob/files"
	"github.com/gpuaas/gpuaas/product/storage/check"
	"github.com/gpuaas/gpuaas/product/storage/listing"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// fixture is one project with a server of the role api and one of the role work.
type fixture struct {
	t      testing.TB
	db     *pgxpool.Pool
	api    *storage.Service
	work   *storage.Service
	blobs  blob.Store
	limits *storage.Limits
	caller identity.Caller
}

func setup(t testing.TB) *fixture {
	t.Helper()
	store, err := files.Open(t.TempDir(), clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return setupWith(t, store)
}

func setupWith(t testing.TB, store blob.Store) *fixture {
	t.Helper()
	f := &fixture{t: t, db: pgtest.Clone(t), blobs: store, limits: &storage.Limits{
		ProjectBytes: 1 << 30, TenantBytes: 1 << 30, ProjectObjects: 100_000, TenantObjects: 100_000, ObjectBytes: 1 << 28, Trash: 24 * time.Hour, UploadLife: time.Hour,
	}}
	limits := func(ids.Tenant, ids.Project) storage.Limits { return *f.limits }
	api := pgtest.Scoped(t, f.db)
	f.api = &storage.Service{DB: api, Identity: &identity.Service{DB: api}, Blobs: store, Naming: ids.DefaultNaming, Limits: limits}
	f.work = &storage.Service{DB: pgtest.As(t, f.db, "gpuaas_work"), Blobs: store, Naming: ids.DefaultNaming, Limits: limits}
	f.caller = identity.Caller{Tenant: ids.New[ids.Tenant](), Project: ids.New[ids.Project](), User: ids.New[ids.User](), CorrelationID: "test"}
	f.insertProject()
	f.historySince("3 hours")
	return f
}

// other returns the fixture for another project.
func (f *fixture) other(tenant ids.Tenant) *fixture {
	o := *f
	o.caller.Tenant, o.caller.Project = tenant, ids.New[ids.Project]()
	o.insertProject()
	return &o
}

// historySince makes the database know its history since some time ago.
func (f *fixture) historySince(ago string) {
	f.t.Helper()
	f.exec(`SELECT storage_known_since()`)
	f.exec(`UPDATE storage_history SET written_by = pg_current_xact_id(), since = now() - $1::interval`, ago)
}

func (f *fixture) insertProject() {
	f.t.Helper()
	f.exec(`INSERT INTO tenants (id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING`, f.caller.Tenant, f.caller.Tenant.String())
	f.exec(`INSERT INTO projects (id, org_id, name) VALUES ($1, $2, $3)`, f.caller.Project, f.caller.Tenant, f.caller.Project.String())
}

// abortForgotten does the work of its job.
func (f *fixture) abortForgotten() error {
	s := &check.Service{DB: f.work.DB, Blobs: f.blobs, Clock: f.work.Clock, UploadLife: func() time.Duration { return f.limits.UploadLife }}
	return s.AbortForgotten(f.ctx())
}

func (f *fixture) ctx() context.Context {
	return pg.WithScope(context.Background(), pg.Scope{Tenant: f.caller.Tenant.String(), Principal: f.caller.Principal().String()})
}

func (f *fixture) scope() storage.Scope { return storage.ScopeOf(f.caller) }

func (f *fixture) change() identity.Change[storage.Object] {
	return identity.Change[storage.Object]{Caller: f.caller}
}

func path(text string) objectpath.Path {
	p, err := objectpath.ParseFolder("path", text)
	if err != nil {
		panic(err)
	}
	return p
}

func (f *fixture) put(at, text string) (storage.Object, error) {
	o, _, err := f.api.Upload(f.ctx(), f.scope(), storage.NewFile{Path: path(at), Size: int64(len(text))}, strings.NewReader(text))
	return o, err
}

func (f *fixture) mustPut(at, text string) storage.Object {
	f.t.Helper()
	o, err := f.put(at, text)
	if err != nil {
		f.t.Fatalf("uploading %s: %v", at, err)
	}
	return o
}

func (f *fixture) mkdir(at string) error {
	_, err := f.api.CreateFolder(f.ctx(), f.change(), path(at))
	return err
}

func (f *fixture) rename(from, to string) error {
	_, err := f.api.Rename(f.ctx(), f.change(), path(from), path(to), storage.Condition{})
	return err
}

func (f *fixture) copy(from, to string) error {
	_, err := f.api.Copy(f.ctx(), f.change(), storage.NewCopy{From: path(from), To: path(to)})
	return err
}

func (f *fixture) remove(at string) (storage.Object, error) {
	return f.api.Delete(f.ctx(), f.change(), storage.Removal{Path: path(at), Recursive: true})
}

func (f *fixture) read(at string) (string, error) {
	_, from, err := f.api.Open(f.ctx(), f.scope(), path(at))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(from)
	return string(text), errors.Join(err, from.Close())
}

// list returns all that is below a folder, in pages of n.
func (f *fixture) list(at string, recursive bool, n int) (all []string) {
	f.t.Helper()
	q := listing.Query{Folder: path(at), Recursive: recursive, Limit: n}
	for {
		page, err := listing.Service{Service: f.api}.List(f.ctx(), f.scope(), q)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, o := range page {
			name := o.Path.String()
			if o.Type == storage.Folder {
				name += "/"
			}
			all = append(all, name)
		}
		if len(page) < n {
			return all
		}
		q.After = listing.PositionOf(page[n-1], q)
	}
}

func (f *fixture) usage() storage.Usage {
	f.t.Helper()
	u, err := f.api.Usage(f.ctx(), f.scope())
	if err != nil {
		f.t.Fatal(err)
	}
	return u
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.db.Exec(f.ctx(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

// cleanUp runs the cleanup job as if all waiting times had passed.
func (f *fixture) cleanUp() {
	f.t.Helper()
	f.exec(`UPDATE storage_objects SET purge_at = now() WHERE purge_at IS NOT NULL`)
	f.exec(`UPDATE storage_reservations SET expires_at = now()`)
	f.exec(`UPDATE storage_uploads SET expires_at = now()`)
	if err := f.work.CleanUp(f.ctx()); err != nil {
		f.t.Fatal(err)
	}
}

// backend returns the backend objects and their bytes.
func (f *fixture) backend() (n int, size int64) {
	f.t.Helper()
	for info, err := range f.blobs.List(f.ctx(), uuid.Nil) {
		if err != nil {
			f.t.Fatal(err)
		}
		n++
		size += info.Size
	}
	return n, size
}

func wantCode(t testing.TB, what string, err error, code errs.Code) {
	t.Helper()
	if err == nil && code == "" {
		return
	}
	if err == nil || errs.CodeOf(err) != code {
		t.Errorf("%s: %v, want %q", what, err, code)
	}
}

func wantList(t testing.TB, got []string, want string) {
	t.Helper()
	if text := strings.Join(got, " "); text != want {
		t.Errorf("listed %q, want %q", text, want)
	}
}

// pieces hides the size of a text, and fails at its end if broken is set.
type pieces struct {
	*bytes.Reader

	broken error
}

func (p pieces) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b[:min(len(b), 1000)])
	if errors.Is(err, io.EOF) && p.broken != nil {
		err = p.broken
	}
	return n, err
}
