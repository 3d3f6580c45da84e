package storage_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/storage"
)

// model contains what the tests expect of a project: the contents of files by path, and folders as paths that end with a slash.
type model struct {
	tree    map[string]string
	deleted map[uuid.UUID]map[string]string // by the path below the deleted object, which is ""
}

func (m model) children(at string) []string {
	var all []string
	for p := range m.tree {
		if p == at || strings.HasPrefix(p, strings.TrimSuffix(at, "/")+"/") {
			all = append(all, p)
		}
	}
	return all
}

// find returns the key of a path: that of a file, or with a slash.
func (m model) find(p string) (string, bool) {
	if _, ok := m.tree[p]; ok {
		return p, true
	}
	_, ok := m.tree[p+"/"]
	return p + "/", ok
}

// clashes reports whether a file of the path would be a folder.
func (m model) clashes(p string) bool {
	for i, r := range p {
		if _, file := m.tree[p[:i]]; r == '/' && file {
			return true
		}
	}
	return false
}

func (m model) addFolders(p string) {
	for i, r := range p {
		if r == '/' {
			m.tree[p[:i+1]] = ""
		}
	}
}

// cut removes an object, and returns what is below it by relative path.
func (m model) cut(key string) map[string]string {
	below := map[string]string{}
	for _, p := range m.children(key) {
		below[strings.TrimPrefix(p, strings.TrimSuffix(key, "/"))] = m.tree[p]
		delete(m.tree, p)
	}
	return below
}

func (m model) insert(at string, below map[string]string) {
	for rel, text := range below {
		m.tree[at+rel] = text
	}
}

func (m model) bytes() (n, objects int64) {
	count := func(tree map[string]string) {
		for _, text := range tree {
			n += int64(len(text))
			objects++
		}
	}
	count(m.tree)
	for _, below := range m.deleted {
		count(below)
	}
	return n, objects
}

var names = rapid.Custom(func(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c.d", "é"}), 1, 3).Draw(t, "names"), "/")
})

// Random histories leave the same tree as a map in memory, and SUM(size_bytes) of the rows equals the usage. After the
// cleanup job the object store contains what the files refer to, and nothing else.
func TestHistoriesFitAModel(t *testing.T) {
	t.Parallel()
	f := setup(t)
	rapid.Check(t, func(t *rapid.T) {
		g := f.other(ids.New[ids.Tenant]())
		m := model{map[string]string{}, map[uuid.UUID]map[string]string{}}
		t.Repeat(map[string]func(*rapid.T){
			"upload": func(t *rapid.T) { m.upload(t, g) },
			"mkdir": func(t *rapid.T) {
				p := names.Draw(t, "path")
				err := g.mkdir(p)
				_, exists := m.find(p)
				if want := !exists && !m.clashes(p); (err == nil) != want {
					t.Fatalf("mkdir %s: %v", p, err)
				}
				if err == nil {
					m.addFolders(p + "/")
				}
			},
			"upload in parts": func(t *rapid.T) { m.uploadParts(t, g) },
			"rename":          func(t *rapid.T) { m.rename(t, g) },
			"copy":            func(t *rapid.T) { m.copy(t, g) },
			"delete":          func(t *rapid.T) { m.remove(t, g) },
			"restore":         func(t *rapid.T) { m.restore(t, g) },
			"clean up": func(t *rapid.T) {
				g.cleanUp()
				clear(m.deleted)
			},
			"": func(t *rapid.T) { m.compare(t, g) },
		})
	})
}

func (m model) upload(t *rapid.T, g *fixture) {
	p, text := names.Draw(t, "path"), rapid.StringMatching(`[a-z]{0,40}`).Draw(t, "text")
	_, err := g.put(p, text)
	key, exists := m.find(p)
	want := !m.clashes(p) && (!exists || key == p)
	if (err == nil) != want {
		t.Fatalf("upload %s: %v", p, err)
	}
	if err == nil {
		m.addFolders(p)
		m.tree[p] = text
	}
}

// uploadParts completes or aborts an upload, once or twice.
func (m model) uploadParts(t *rapid.T, g *fixture) {
	p, text := names.Draw(t, "path"), rapid.StringMatching(`[a-z]{0,40}`).Draw(t, "text")
	n := storage.NewUpload{Path: path(p), Size: int64(len(text)), SHA256: rapid.SampledFrom([][]byte{nil, sumOf([]byte(text))}).Draw(t, "sum")}
	u, err := g.api.BeginUpload(g.ctx(), g.scope(), n)
	key, exists := m.find(p)
	want := !m.clashes(p) && (!exists || key == p)
	if (err == nil) != want {
		t.Fatalf("begin %s: %v", p, err)
	}
	if err != nil {
		return
	}
	_, failed := g.putPart(u, 1, []byte(text))
	end := func() error { return g.abort(u) }
	if rapid.Bool().Draw(t, "complete") {
		end = func() error { _, _, err := g.complete(u, nil); return err }
		m.addFolders(p)
		m.tree[p] = text
	}
	for range rapid.IntRange(1, 2).Draw(t, "times") {
		failed = errors.Join(failed, end())
	}
	if failed != nil {
		t.Fatalf("upload %s in parts: %v", p, failed)
	}
}

func (m model) rename(t *rapid.T, g *fixture) {
	from, to := names.Draw(t, "from"), names.Draw(t, "to")
	err := g.rename(from, to)
	key, exists := m.find(from)
	_, taken := m.find(to)
	folder := to[:strings.LastIndexByte(to, '/')+1]
	_, parent := m.tree[folder]
	want := exists && (from == to || !taken && (parent || folder == "")) && (!strings.HasSuffix(key, "/") || !strings.HasPrefix(to, key))
	if (err == nil) != want {
		t.Fatalf("rename %s to %s: %v", from, to, err)
	}
	if err == nil {
		m.insert(to, m.cut(key))
	}
}

func (m model) copy(t *rapid.T, g *fixture) {
	from, to := names.Draw(t, "from"), names.Draw(t, "to")
	err := g.copy(from, to)
	text, exists := m.tree[from]
	key, taken := m.find(to)
	want := exists && !m.clashes(to) && (!taken || key == to)
	if (err == nil) != want {
		t.Fatalf("copy %s to %s: %v", from, to, err)
	}
	if err == nil {
		m.addFolders(to)
		m.tree[to] = text
	}
}

func (m model) remove(t *rapid.T, g *fixture) {
	p := names.Draw(t, "path")
	o, err := g.remove(p)
	key, exists := m.find(p)
	if (err == nil) != exists {
		t.Fatalf("delete %s: %v", p, err)
	}
	if err == nil {
		m.deleted[o.ID] = m.cut(key)
	}
}

func (m model) restore(t *rapid.T, g *fixture) {
	if len(m.deleted) == 0 {
		t.Skip("nothing is deleted")
	}
	ids := slices.SortedFunc(maps.Keys(m.deleted), func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
	id, to := rapid.SampledFrom(ids).Draw(t, "id"), names.Draw(t, "to")
	_, err := g.api.Restore(g.ctx(), g.change(), id, path(to))
	_, taken := m.find(to)
	folder := to[:strings.LastIndexByte(to, '/')+1]
	_, parent := m.tree[folder]
	if want := !taken && (parent || folder == ""); (err == nil) != want {
		t.Fatalf("restore to %s: %v", to, err)
	}
	if err == nil {
		m.insert(to, m.deleted[id])
		delete(m.deleted, id)
	}
}

func (m model) compare(t *rapid.T, g *fixture) {
	want := slices.Sorted(maps.Keys(m.tree))
	if got := g.list("", true, rapid.IntRange(1, 20).Draw(t, "page")); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("listed %q, want %q", got, want)
	}
	for p, text := range m.tree {
		if strings.HasSuffix(p, "/") {
			continue
		}
		if got, err := g.read(p); got != text || err != nil {
			t.Fatalf("%s contains %q (%v), want %q", p, got, err, text)
		}
	}
	bytes, objects := m.bytes()
	if u := g.usage(); u.Bytes != bytes || u.Objects != objects || u.TenantBytes != bytes || u.TenantObjects != objects || u.Reserved != 0 {
		t.Fatalf("%+v, want %d bytes of %d objects", u, bytes, objects)
	}
	if lost := g.broken(); lost != "" {
		t.Fatal(lost)
	}
}

// broken describes a difference between the rows of the project and the object store.
func (f *fixture) broken() string {
	var rows, bytes, orphans int64
	if err := f.db.QueryRow(f.ctx(), `
		SELECT count(*), coalesce(sum(size_bytes), 0)::bigint, count(*) FILTER (WHERE deleted_at IS NULL AND NOT EXISTS (SELECT FROM storage_objects p WHERE p.id = o.parent_id))
		FROM storage_objects o WHERE project_id = $1 AND parent_id IS NOT NULL`, f.caller.Project).Scan(&rows, &bytes, &orphans); err != nil {
		return err.Error()
	}
	if u := f.usage(); rows != u.Objects || bytes != u.Bytes || orphans != 0 {
		return fmt.Sprintf("%d rows with %d bytes, %d without a folder; the usage is %+v", rows, bytes, orphans, u)
	}
	keys, err := f.keys(`SELECT object_key FROM storage_objects WHERE project_id = $1 AND object_key IS NOT NULL`)
	if err != nil {
		return err.Error()
	}
	for _, key := range keys {
		if _, err := f.blobs.Stat(f.ctx(), key); err != nil {
			return fmt.Sprintf("a file without its backend object: %v", err)
		}
	}
	return ""
}

func (f *fixture) keys(sql string) ([]uuid.UUID, error) {
	rows, err := f.db.Query(f.ctx(), sql, f.caller.Project)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []uuid.UUID
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	return all, rows.Err()
}

// After all files were deleted and cleaned up, the object store of a history is empty.
func TestNothingIsLeftOfDeletedFiles(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for i := range 30 {
		f.mustPut(fmt.Sprintf("d/%d/f", i%7), strings.Repeat("x", i))
	}
	wantCode(t, "copy", f.copy("d/1/f", "e/f"), "")
	for _, p := range []string{"d", "e"} {
		if _, err := f.remove(p); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.remove("d")
	wantCode(t, "again", err, errs.StorageObjectNotFound)
	f.cleanUp()
	if n, _ := f.backend(); n != 0 {
		t.Errorf("%d backend objects are left", n)
	}
	if u := f.usage(); u != (storage.Usage{QuotaBytes: 1 << 30, QuotaObjects: 100_000, TenantQuotaBytes: 1 << 30, TenantQuotaObjects: 100_000}) {
		t.Errorf("%+v", u)
	}
	if rows, err := f.keys(`SELECT object_key FROM storage_reservations WHERE project_id = $1`); err != nil || len(rows) != 0 {
		t.Errorf("%d reservations are left, %v", len(rows), err)
	}
}
