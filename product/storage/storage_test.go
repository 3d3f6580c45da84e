package storage_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/listing"
)

func TestUploadListDownload(t *testing.T) {
	t.Parallel()
	f := setup(t)
	wantList(t, f.list("", true, 10), "")
	o := f.mustPut("data/train/a.bin", "hello")
	if sum := sha256.Sum256([]byte("hello")); o.Size != 5 || !bytes.Equal(o.SHA256, sum[:]) || o.Path.String() != "data/train/a.bin" {
		t.Errorf("%+v", o)
	}
	if text, err := f.read("data/train/a.bin"); text != "hello" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	wantList(t, f.list("", true, 10), "data/ data/train/ data/train/a.bin")
	wantList(t, f.list("data", false, 10), "data/train/")
	if u := f.usage(); u.Bytes != 5 || u.Objects != 3 || u.Reserved != 0 || u.TenantBytes != 5 {
		t.Errorf("%+v", u)
	}
	// A replaced file has the new bytes only.
	second, created, err := f.api.Upload(f.ctx(), f.scope(), storage.NewFile{Path: path("data/train/a.bin"), Size: -1, MediaType: "text/plain"}, pieces{Reader: bytes.NewReader(bytes.Repeat([]byte("x"), 3000))})
	if err != nil || created || second.ID != o.ID || second.ETag() == o.ETag() || second.Size != 3000 {
		t.Errorf("%+v, %v, %v", second, created, err)
	}
	if u := f.usage(); u.Bytes != 3000 || u.Objects != 3 || u.Reserved != 0 {
		t.Errorf("%+v", u)
	}
	f.cleanUp()
	if n, size := f.backend(); n != 1 || size != 3000 {
		t.Errorf("%d backend objects with %d bytes", n, size)
	}
	for _, missing := range []string{"data/train/b.bin", "data/train/a.bin/x", "no/such", "Data/train/a.bin"} {
		_, err := f.read(missing)
		wantCode(t, missing, err, errs.StorageObjectNotFound)
	}
}

// The sequence of a recursive list is that of the whole paths, byte by byte, whatever the size of a page.
func TestListsAreInByteOrder(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, name := range []string{"a/b", "a.txt", "a-", "a/c/d", "a0", "B", "a/c.d", "ü", "empty/x"} {
		f.mustPut(name, "1")
	}
	if _, err := f.remove("empty/x"); err != nil {
		t.Fatal(err)
	}
	for n := 1; n < 13; n++ {
		wantList(t, f.list("", true, n), "B a- a.txt a/ a/b a/c.d a/c/ a/c/d a0 empty/ ü")
		wantList(t, f.list("a", true, n), "a/b a/c.d a/c/ a/c/d")
		wantList(t, f.list("", false, n), "B a- a.txt a/ a0 empty/ ü")
	}
	// A folder that was renamed between two pages is skipped, not an error.
	q := listing.Query{Recursive: true, Limit: 5}
	page, err := listing.Service{Service: f.api}.List(f.ctx(), f.scope(), q)
	if err != nil || f.rename("a", "z") != nil {
		t.Fatal(err)
	}
	q.After = listing.PositionOf(page[4], q)
	rest, err := listing.Service{Service: f.api}.List(f.ctx(), f.scope(), q)
	if err != nil || rest[0].Path.String() != "a0" {
		t.Errorf("%v, %v", rest, err)
	}
	newest, err := listing.Service{Service: f.api}.List(f.ctx(), f.scope(), listing.Query{Newest: true, Limit: 1})
	if err != nil || newest[0].Name != "z" {
		t.Errorf("%v, %v", newest, err)
	}
}

func TestNamesOfOneFolderAreDistinct(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.mustPut("Data/Straße", "1")
	for _, at := range []string{"data/x", "Data/STRASSE", "DATA/y"} {
		_, err := f.put(at, "2")
		wantCode(t, at, err, errs.AlreadyExists)
		if e, ok := errors.AsType[*errs.Error](err); ok && e.Details["existing"] == nil {
			t.Errorf("%v does not name the existing path", err)
		}
	}
	wantCode(t, "a folder in another spelling", f.mkdir("data"), errs.AlreadyExists)
	wantCode(t, "the same folder", f.mkdir("Data"), errs.AlreadyExists)
	wantCode(t, "a file as a folder", f.mkdir("Data/Straße/x"), errs.Conflict)
	_, err := f.put("Data", "1")
	wantCode(t, "a folder as a file", err, errs.Conflict)
	wantCode(t, "another spelling by rename", f.rename("Data", "data"), "")
	wantList(t, f.list("", true, 9), "data/ data/Straße")
}

func TestRenamesMoveOneRow(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.mustPut("a/b/c", "1")
	f.mustPut("x", "2")
	for _, c := range []struct {
		from, to string
		want     errs.Code
	}{
		{"a", "a/b", errs.Conflict},
		{"a", "a/b/d", errs.Conflict},
		{"a/b", "x", errs.AlreadyExists},
		{"x", "a/b/c", errs.AlreadyExists},
		{"x", "a", errs.AlreadyExists},
		{"x", "no/x", errs.StorageObjectNotFound},
		{"no", "y", errs.StorageObjectNotFound},
		{"x", "a/b/c/d", errs.Conflict},
		{"x", "x", ""},
		{"a/b", "a/b", ""},
		{"a/b", "y", ""},
		{"x", "y/x", ""},
	} {
		wantCode(t, c.from+" to "+c.to, f.rename(c.from, c.to), c.want)
	}
	wantList(t, f.list("", true, 9), "a/ y/ y/c y/x")
	_, err := f.api.Rename(f.ctx(), f.change(), path("y"), path("z"), storage.Condition{ETag: `"other"`})
	wantCode(t, "with another ETag", err, errs.VersionMismatch)
}

// Paths below a moved folder do not become deeper or longer than a path may be.
func TestRenamesKeepTheLimitsOfPaths(t *testing.T) {
	t.Parallel()
	f := setup(t)
	deep := strings.TrimSuffix(strings.Repeat("d/", 40), "/")
	f.mustPut(deep, "1")
	f.mustPut("e/"+strings.TrimSuffix(strings.Repeat("e/", 23), "/"), "1")
	wantCode(t, "64 names", f.rename("d", "e/d"), "")
	wantCode(t, "back", f.rename("e/d", "d"), "")
	if f.mkdir("g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g") != nil {
		t.Fatal("mkdir")
	}
	wantCode(t, "65 names", f.rename("d", "g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/g/d"), "")
	wantCode(t, "deeper", f.rename("g", "e/g"), errs.ValidationError)
	long := strings.Repeat("l", 250)
	f.mustPut("n/"+long+"/"+long+"/"+long, "1")
	if f.mkdir("m/"+long+"/"+long) != nil {
		t.Fatal("mkdir")
	}
	wantCode(t, "longer", f.rename("n", "m/"+long+"/"+long+"/n"), errs.ValidationError)
	wantCode(t, "short enough", f.rename("n", "m/n"), "")
}

func TestCopiesShareTheirBytes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.mustPut("a", "12345")
	wantCode(t, "copy", f.copy("a", "b/c"), "")
	wantCode(t, "onto itself", f.copy("a", "a"), "")
	wantCode(t, "a folder", f.copy("b", "d"), errs.Conflict)
	if u := f.usage(); u.Bytes != 10 || u.Objects != 3 {
		t.Errorf("%+v", u)
	}
	if n, size := f.backend(); n != 1 || size != 5 {
		t.Errorf("%d backend objects with %d bytes", n, size)
	}
	if _, err := f.remove("a"); err != nil {
		t.Fatal(err)
	}
	f.cleanUp()
	if text, err := f.read("b/c"); text != "12345" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := f.remove("b"); err != nil {
		t.Fatal(err)
	}
	f.cleanUp()
	if n, _ := f.backend(); n != 0 {
		t.Errorf("%d backend objects are left", n)
	}
	if u := f.usage(); u.Bytes != 0 || u.Objects != 0 || u.TenantBytes != 0 || u.TenantObjects != 0 {
		t.Errorf("%+v", u)
	}
}

func TestDeletedObjectsCanBeRestored(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.mustPut("a/b/c", "1")
	_, err := f.api.Delete(f.ctx(), f.change(), storage.Removal{Path: path("a")})
	wantCode(t, "a folder that is not empty", err, errs.Conflict)
	inner, err := f.remove("a/b")
	if err != nil {
		t.Fatal(err)
	}
	outer, err := f.remove("a")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.remove("a")
	wantCode(t, "a second time", err, errs.StorageObjectNotFound)
	wantList(t, f.list("", true, 9), "")
	if u := f.usage(); u.Bytes != 1 || u.Objects != 3 {
		t.Errorf("deleted objects do not count: %+v", u)
	}
	restore := func(id uuid.UUID, to string) error {
		_, err := f.api.Restore(f.ctx(), f.change(), id, path(to))
		return err
	}
	wantCode(t, "below a deleted folder", restore(inner.ID, ""), errs.Conflict)
	f.mustPut("a", "other")
	wantCode(t, "a name in use", restore(outer.ID, ""), errs.AlreadyExists)
	wantCode(t, "elsewhere", restore(outer.ID, "z"), "")
	wantCode(t, "in the renamed folder", restore(inner.ID, ""), "")
	wantCode(t, "again", restore(inner.ID, ""), errs.StorageObjectNotFound)
	wantList(t, f.list("", true, 9), "a z/ z/b/ z/b/c")
	deleted, err := f.remove("z")
	if err != nil {
		t.Fatal(err)
	}
	all, err := f.api.Deleted(f.ctx(), f.scope(), uuid.Nil, 10)
	if err != nil || len(all) != 1 || all[0].DeletedPath != "z" || all[0].PurgeAt.Sub(*all[0].DeletedAt) != 24*time.Hour {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := f.api.Purge(f.ctx(), f.change(), deleted.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "purged", restore(deleted.ID, ""), errs.Conflict)
	if err := f.work.CleanUp(f.ctx()); err != nil {
		t.Fatal(err)
	}
	if u := f.usage(); u.Bytes != 5 || u.Objects != 1 {
		t.Errorf("%+v", u)
	}
}

func TestPreconditions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	o := f.mustPut("a", "1")
	put := func(c storage.Condition, sum []byte) error {
		_, _, err := f.api.Upload(f.ctx(), f.scope(), storage.NewFile{Path: path("a"), Size: 1, If: c, SHA256: sum}, strings.NewReader("2"))
		return err
	}
	wantCode(t, "absent", put(storage.Condition{Absent: true}, nil), errs.VersionMismatch)
	wantCode(t, "another ETag", put(storage.Condition{ETag: `"0"`}, nil), errs.VersionMismatch)
	wantCode(t, "another digest", put(storage.Condition{}, make([]byte, 32)), errs.ValidationError)
	wantCode(t, "the ETag", put(storage.Condition{ETag: o.ETag()}, nil), "")
	wantCode(t, "the old ETag", put(storage.Condition{ETag: o.ETag()}, nil), errs.VersionMismatch)
	wantCode(t, "any", put(storage.Condition{ETag: "*"}, nil), "")
	_, _, err := f.api.Upload(f.ctx(), f.scope(), storage.NewFile{Path: path("b"), If: storage.Condition{ETag: "*"}}, strings.NewReader(""))
	wantCode(t, "any of none", err, errs.VersionMismatch)
	if u := f.usage(); u.Bytes != 1 || u.Reserved != 0 {
		t.Errorf("%+v", u)
	}
}

// Lies about lengths and broken bodies leave neither a file nor a reservation.
func TestUploadsThatFail(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.limits.ObjectBytes = 10_000
	gone := errors.New("connection reset")
	for name, c := range map[string]struct {
		size, sent int64
		broken     error
		want       errs.Code
	}{
		"shorter":              {5000, 4000, nil, errs.BadRequest},
		"longer":               {4000, 5000, nil, errs.BadRequest},
		"too large":            {10_001, 10_001, nil, errs.BodyTooLarge},
		"too large, not known": {-1, 10_001, nil, errs.BodyTooLarge},
		"broken off":           {5000, 4000, gone, errs.BadRequest},
		"broken off, unknown":  {-1, 4000, gone, errs.BadRequest},
	} {
		_, _, err := f.api.Upload(f.ctx(), f.scope(), storage.NewFile{Path: path("a"), Size: c.size}, pieces{bytes.NewReader(make([]byte, c.sent)), c.broken})
		wantCode(t, name, err, c.want)
	}
	if u := f.usage(); u.Bytes != 0 || u.Reserved != 0 || u.Objects != 0 {
		t.Errorf("%+v", u)
	}
	f.cleanUp()
	if n, _ := f.backend(); n != 0 {
		t.Errorf("%d backend objects are left", n)
	}
}

// Of 200 parallel uploads into a quota for 100, exactly 100 are accepted, of known and of unknown size.
func TestQuotasAreExact(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.limits.ProjectBytes = 100 * 1000
	var wg sync.WaitGroup
	var mu sync.Mutex
	codes := map[errs.Code]int{}
	for i := range 200 {
		wg.Go(func() {
			_, _, err := f.api.Upload(f.ctx(), f.scope(), storage.NewFile{Path: path("f" + strings.Repeat("x", i+1)), Size: 1000}, bytes.NewReader(make([]byte, 1000)))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				codes[""]++
			} else {
				codes[errs.CodeOf(err)]++
			}
		})
	}
	wg.Wait()
	if u := f.usage(); codes[""] != 100 || codes[errs.StorageQuotaExceeded] != 100 || u.Bytes != 100*1000 || u.Reserved != 0 {
		t.Errorf("%v, %+v", codes, u)
	}
	_, _, err := f.api.Upload(f.ctx(), f.scope(), storage.NewFile{Path: path("g"), Size: -1}, io.LimitReader(zeros{}, 20<<20))
	wantCode(t, "of unknown size", err, errs.StorageQuotaExceeded)
	// The quota of the tenant limits all its projects.
	f.limits.ProjectBytes, f.limits.TenantBytes = 1<<30, 100*1000+500
	o := f.other(f.caller.Tenant)
	_, err = o.put("a", strings.Repeat("x", 501))
	wantCode(t, "the tenant", err, errs.StorageQuotaExceeded)
	o.mustPut("a", strings.Repeat("x", 500))
	f.limits.TenantObjects = 101
	wantCode(t, "one file too many", o.mkdir("b"), errs.StorageQuotaExceeded)
	// Less is always possible.
	f.limits.TenantBytes, f.limits.TenantObjects = 0, 0
	if _, err := o.remove("a"); err != nil {
		t.Error(err)
	}
	f.cleanUp()
	if u := o.usage(); u.Bytes != 0 || u.TenantBytes != 100*1000 {
		t.Errorf("%+v", u)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// No path, deleted object or list of a project contains what belongs to another one.
func TestProjectsShareNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.mustPut("secret/a", "1")
	deleted, _ := f.remove("secret/a")
	f.mustPut("secret/a", "1")
	for _, o := range []*fixture{f.other(f.caller.Tenant), f.other(ids.New[ids.Tenant]())} {
		_, err := o.read("secret/a")
		wantCode(t, "read", err, errs.StorageObjectNotFound)
		wantCode(t, "rename", o.rename("secret/a", "b"), errs.StorageObjectNotFound)
		_, err = o.api.Restore(o.ctx(), o.change(), deleted.ID, nil)
		wantCode(t, "restore", err, errs.StorageObjectNotFound)
		_, err = o.api.Purge(o.ctx(), o.change(), deleted.ID)
		wantCode(t, "purge", err, errs.StorageObjectNotFound)
		wantList(t, o.list("", true, 9), "")
	}
	foreign := *f
	foreign.caller.Tenant = ids.New[ids.Tenant]()
	wantList(t, foreign.list("", true, 9), "") // row-level security
}

// Changes at the same time make no circle, and no two objects of one name.
func TestParallelChangesKeepATree(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, name := range []string{"a", "b"} {
		if err := f.mkdir(name); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		var wg sync.WaitGroup
		failed := make([]error, 2)
		wg.Go(func() { failed[0] = f.rename("a", "b/a") })
		wg.Go(func() { failed[1] = f.rename("b", "a/b") })
		wg.Wait()
		if (failed[0] == nil) == (failed[1] == nil) {
			t.Fatalf("%v", failed)
		}
		if failed[0] == nil {
			failed[0] = f.rename("b/a", "a")
		} else {
			failed[0] = f.rename("a/b", "b")
		}
		if failed[0] != nil {
			t.Fatal(failed[0])
		}
	}
	var wg sync.WaitGroup
	for _, name := range []string{"Name", "name", "NAME"} {
		for range 5 {
			wg.Go(func() { _, _ = f.put("dir/"+name, "1") })
		}
	}
	wg.Wait()
	if all := f.list("dir", true, 9); len(all) != 1 {
		t.Errorf("%q", all)
	}
}

// A copy whose original has changed since its condition was compared does not exist.
func TestCopyOfAChangedFile(t *testing.T) {
	t.Parallel()
	f := setup(t)
	o := f.mustPut("a", "first")
	from := f.api.OpenObject(f.ctx(), o)
	defer from.Close()
	f.mustPut("a", "second")
	n := storage.NewCopy{From: path("a"), To: path("b"), FromIf: storage.Condition{ETag: o.ETag()}}
	_, err := f.api.Copy(f.ctx(), f.change(), n)
	wantCode(t, "a copy of a changed file", err, errs.VersionMismatch)
	if text, err := io.ReadAll(from); string(text) != "first" {
		t.Errorf("the bytes of the object that was read are %q, %v", text, err)
	}
	n.FromIf = storage.Condition{}
	_, err = f.api.Copy(f.ctx(), f.change(), n)
	wantCode(t, "without a condition", err, "")
	wantList(t, f.list("", true, 10), "a b")
}
