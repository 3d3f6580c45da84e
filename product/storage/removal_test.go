package storage_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/storage"
)

// All files of a tenant are deleted for good, those in the trash, too, and those of another tenant stay.
func TestDeleteFilesOfATenant(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.mustPut("a/b", "12")
	f.mustPut("c", "345")
	f.mustPut("d", "6")
	if _, err := f.remove("d"); err != nil {
		t.Fatal(err)
	}
	f.begin(storage.NewUpload{Path: path("g"), Size: 100})
	second, foreign := f.other(f.caller.Tenant), f.other(ids.New[ids.Tenant]())
	second.mustPut("e", "7")
	foreign.mustPut("f", "8")
	var objects, size int64
	err := pgx.BeginFunc(f.ctx(), f.db, func(tx pgx.Tx) (err error) {
		objects, size, err = f.work.DeleteFiles(f.ctx(), tx, f.caller.Tenant)
		return err
	})
	if err != nil || objects != 5 || size != 7 {
		t.Errorf("deleted %d objects with %d bytes, %v", objects, size, err)
	}
	if err := f.work.CleanUp(f.ctx()); err != nil {
		t.Fatal(err)
	}
	if u, other := f.usage(), second.usage(); u.Bytes+other.Bytes+u.Objects+other.Objects+u.Reserved != 0 {
		t.Errorf("used are %+v and %+v", u, other)
	}
	if n := f.backendUploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
	if text, err := foreign.read("f"); text != "8" {
		t.Errorf("the file of another tenant is %q, %v", text, err)
	}
}

// What is metered is what is stored.
func (f *fixture) metered() (bytes int64) {
	f.t.Helper()
	if err := f.db.QueryRow(f.ctx(), `SELECT coalesce(sum(bytes), 0)::bigint FROM usage_storage WHERE end_s IS NULL AND project_id = $1`, f.caller.Project).Scan(&bytes); err != nil {
		f.t.Fatal(err)
	}
	return bytes
}

func TestEachChangeOfBytesIsMetered(t *testing.T) {
	t.Parallel()
	f := setup(t)
	steps := map[string]func() error{
		"1 upload":  func() error { _, err := f.put("a", "12345"); return err },
		"2 replace": func() error { _, err := f.put("a", "12"); return err },
		"3 copy":    func() error { return f.copy("a", "b") },
		"4 delete":  func() error { _, err := f.remove("a"); return err },
		"5 purge":   func() error { f.cleanUp(); return nil },
	}
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		if err := steps[name](); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, want := f.metered(), f.usage().Bytes; got != want {
			t.Errorf("after %s %d bytes are metered, want %d", name, got, want)
		}
	}
}
