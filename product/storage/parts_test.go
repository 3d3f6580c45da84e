package storage_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// content is as long as two of the smallest parts and some bytes.
var content = func() []byte {
	b := make([]byte, 2*blob.MinPart+100)
	for i := range b {
		b[i] = byte(i*i>>7) + byte(i/blob.MinPart)
	}
	return b
}()

func sumOf(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:]
}

// part returns the bytes of a part of content.
func part(number int) []byte {
	from := (number - 1) * blob.MinPart
	return content[from:min(from+blob.MinPart, len(content))]
}

func (f *fixture) begin(n storage.NewUpload) storage.Upload {
	f.t.Helper()
	u, err := f.api.BeginUpload(f.ctx(), f.scope(), n)
	if err != nil {
		f.t.Fatal(err)
	}
	return u
}

// beginContent begins an upload of content.
func (f *fixture) beginContent(at string) storage.Upload {
	f.t.Helper()
	return f.begin(storage.NewUpload{Path: path(at), MediaType: "text/plain", Size: int64(len(content)), PartSize: blob.MinPart, SHA256: sumOf(content)})
}

func (f *fixture) putPart(u storage.Upload, number int, b []byte) (storage.Part, error) {
	return f.api.PutPart(f.ctx(), f.scope(), u.ID, number, bytes.NewReader(b), int64(len(b)), sumOf(b))
}

func (f *fixture) mustPutPart(u storage.Upload, number int, b []byte) storage.Part {
	f.t.Helper()
	p, err := f.putPart(u, number, b)
	if err != nil {
		f.t.Fatalf("part %d: %v", number, err)
	}
	return p
}

func (f *fixture) complete(u storage.Upload, parts []storage.Part) (storage.Object, bool, error) {
	return f.api.CompleteUpload(f.ctx(), f.scope(), u.ID, storage.Completion{Parts: parts})
}

func (f *fixture) abort(u storage.Upload) error {
	return f.api.AbortUpload(f.ctx(), f.scope(), u.ID)
}

// arrived returns the numbers of the parts that have arrived, in pages of n.
func (f *fixture) arrived(u storage.Upload, n int) (numbers []int) {
	f.t.Helper()
	for {
		after := 0
		if len(numbers) > 0 {
			after = numbers[len(numbers)-1]
		}
		page, err := f.api.PartsOf(f.ctx(), f.scope(), u.ID, after, n)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, p := range page {
			numbers = append(numbers, p.Number)
		}
		if len(page) < n {
			return numbers
		}
	}
}

func (f *fixture) wantUsage(bytes, reserved, objects int64) {
	f.t.Helper()
	if u := f.usage(); u.Bytes != bytes || u.Reserved != reserved || u.Objects != objects || u.TenantBytes != bytes+reserved || u.TenantObjects != objects {
		f.t.Errorf("%+v, want %d bytes, %d reserved, %d objects", u, bytes, reserved, objects)
	}
}

// Parts arrive at the same time and in any sequence. Every step can be repeated, and the file appears as a whole.
func TestUploadInParts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	u := f.beginContent("a/b.bin")
	f.wantUsage(0, int64(len(content)), 0)
	if u.Parts() != 3 || u.PartSize != blob.MinPart || u.State != storage.Open || !u.ExpiresAt.After(u.CreatedAt) {
		t.Errorf("%+v", u)
	}
	var all sync.WaitGroup
	for _, number := range []int{3, 1, 2, 1} {
		all.Go(func() { _, err := f.putPart(u, number, part(number)); wantCode(t, "part", err, "") })
	}
	all.Wait()
	first, again := f.mustPutPart(u, 1, part(1)), f.mustPutPart(u, 1, part(1))
	if first.ETag != again.ETag || first.Size != blob.MinPart || !bytes.Equal(first.SHA256, sumOf(part(1))) {
		t.Errorf("%+v, then %+v", first, again)
	}
	if got := f.arrived(u, 2); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("parts %v", got)
	}
	_, err := f.api.Stat(f.ctx(), f.scope(), path("a/b.bin"))
	wantCode(t, "before the completion", err, errs.StorageObjectNotFound)

	var results [3]storage.Object
	for i := range results {
		all.Go(func() {
			o, created, err := f.complete(u, nil)
			results[i] = o
			if err != nil || !created {
				t.Errorf("complete: %v %v", created, err)
			}
		})
	}
	all.Wait()
	o := results[0]
	if text, err := f.read("a/b.bin"); err != nil || text != string(content) || o.Size != int64(len(content)) || !bytes.Equal(o.SHA256, sumOf(content)) || o.MediaType != "text/plain" {
		t.Errorf("%d bytes, %v, %+v", len(text), err, o)
	}
	f.wantUsage(int64(len(content)), 0, 2)
	// The first response is repeated after the file has changed.
	f.mustPut("a/b.bin", "changed")
	later, created, err := f.complete(u, nil)
	for _, r := range []storage.Object{results[1], results[2], later} {
		if r.ID != o.ID || r.ETag() != o.ETag() || r.Path.String() != "a/b.bin" || !r.UpdatedAt.Equal(o.UpdatedAt) || !created || err != nil {
			t.Errorf("%+v, want %+v", r, o)
		}
	}
	_, err = f.putPart(u, 1, part(1))
	wantCode(t, "a part of a completed upload", err, errs.Conflict)
	wantCode(t, "abort", f.abort(u), errs.Conflict)
	if now, err := f.api.UploadOf(f.ctx(), f.scope(), u.ID); err != nil || now.State != storage.Completed {
		t.Errorf("%+v %v", now, err)
	}
	f.cleanUp()
	_, _, err = f.complete(u, nil)
	wantCode(t, "after its life", err, errs.StorageObjectNotFound)
	if n, size := f.backend(); n != 1 || size != 7 {
		t.Errorf("%d backend objects with %d bytes", n, size)
	}
}

// An upload without a size reserves each part, and can use some of them.
func TestUploadWithoutASize(t *testing.T) {
	t.Parallel()
	f := setup(t)
	u := f.begin(storage.NewUpload{Path: path("f"), Size: -1})
	f.wantUsage(0, 0, 0)
	one := f.mustPutPart(u, 1, part(1))
	f.mustPutPart(u, 1, part(1))
	f.mustPutPart(u, 7, part(3))
	last := f.mustPutPart(u, 9, []byte("the end"))
	f.wantUsage(0, blob.MinPart+100+7, 0)
	last.ETag = "another"
	_, _, err := f.complete(u, []storage.Part{one, last})
	wantCode(t, "another ETag", err, errs.Conflict)
	o, _, err := f.complete(u, []storage.Part{{Number: 1, ETag: one.ETag}, {Number: 9}})
	if err != nil || o.Size != blob.MinPart+7 || o.SHA256 != nil {
		t.Errorf("%+v %v", o, err)
	}
	if text, err := f.read("f"); err != nil || text != string(part(1))+"the end" {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	f.wantUsage(o.Size, 0, 1)

	f.limits.ProjectBytes = 2*blob.MinPart + 7
	u = f.begin(storage.NewUpload{Path: path("g"), Size: -1})
	f.mustPutPart(u, 1, part(1))
	_, err = f.putPart(u, 2, []byte("x"))
	wantCode(t, "over the quota", err, errs.StorageQuotaExceeded)
	_, err = f.putPart(u, 1, []byte("x"))
	wantCode(t, "a smaller part", err, "")
	f.limits.ObjectBytes = blob.MinPart
	_, err = f.putPart(u, 2, []byte("x"))
	wantCode(t, "over the size of a file", err, errs.BodyTooLarge)
	wantCode(t, "abort", f.abort(u), "")
	f.wantUsage(o.Size, 0, 1)
}

// A bad request changes nothing, and the upload can be completed after it.
func TestBadParts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for name, n := range map[string]storage.NewUpload{
		"a part of 1 byte": {Size: 10, PartSize: 1},
		"a part of 6 GiB":  {Size: 10, PartSize: 6 << 30},
		"10,001 parts":     {Size: 10_001 * blob.MinPart, PartSize: blob.MinPart},
		"a negative part":  {Size: 10, PartSize: -1},
	} {
		f.limits.ObjectBytes = 1 << 50
		n.Path = path("f")
		_, err := f.api.BeginUpload(f.ctx(), f.scope(), n)
		wantCode(t, name, err, errs.ValidationError)
	}
	f.limits.ObjectBytes = 5 << 40
	_, err := f.api.BeginUpload(f.ctx(), f.scope(), storage.NewUpload{Path: path("f"), Size: 5<<40 + 1})
	wantCode(t, "more than 5 TiB", err, errs.BodyTooLarge)
	_, err = f.api.BeginUpload(f.ctx(), f.scope(), storage.NewUpload{Path: path("f"), Size: 5 << 40})
	wantCode(t, "5 TiB", err, errs.StorageQuotaExceeded)
	wantCode(t, "mkdir", f.mkdir("folder"), "")
	_, err = f.api.BeginUpload(f.ctx(), f.scope(), storage.NewUpload{Path: path("folder"), Size: 5})
	wantCode(t, "a folder", err, errs.Conflict)

	u := f.beginContent("f")
	_, _, err = f.complete(u, nil)
	wantCode(t, "0 parts", err, errs.Conflict)
	one, two := f.mustPutPart(u, 1, part(1)), f.mustPutPart(u, 2, part(2))
	for name, c := range map[string]struct {
		number int
		body   io.Reader
		size   int64
		sum    []byte
		code   errs.Code
	}{
		"part 0":           {0, bytes.NewReader(part(1)), blob.MinPart, nil, errs.ValidationError},
		"part 4 of 3":      {4, bytes.NewReader(part(1)), blob.MinPart, nil, errs.ValidationError},
		"part 10001":       {10_001, bytes.NewReader(part(1)), blob.MinPart, nil, errs.ValidationError},
		"another size":     {1, bytes.NewReader(part(1)[1:]), blob.MinPart - 1, nil, errs.ValidationError},
		"0 bytes":          {1, strings.NewReader(""), 0, nil, errs.ValidationError},
		"a short body":     {1, bytes.NewReader(part(1)[1:]), blob.MinPart, nil, errs.BadRequest},
		"a long body":      {3, bytes.NewReader(content), 100, nil, errs.BadRequest},
		"a wrong digest":   {1, bytes.NewReader(part(1)), blob.MinPart, sumOf(part(2)), errs.ValidationError},
		"a broken body":    {1, pieces{bytes.NewReader(part(1)[:100]), errors.New("reset")}, blob.MinPart, nil, errs.BadRequest},
		"chunked and long": {3, pieces{bytes.NewReader(content), nil}, -1, nil, errs.BadRequest},
	} {
		_, err := f.api.PutPart(f.ctx(), f.scope(), u.ID, c.number, c.body, c.size, c.sum)
		wantCode(t, name, err, c.code)
	}
	for name, c := range map[string]struct {
		parts []storage.Part
		code  errs.Code
	}{
		"a missing part":    {nil, errs.Conflict},
		"no parts":          {[]storage.Part{}, errs.Conflict},
		"a part twice":      {[]storage.Part{one, one, two}, errs.ValidationError},
		"in reverse":        {[]storage.Part{two, one}, errs.ValidationError},
		"beyond the last":   {[]storage.Part{one, two, {Number: 10_001}}, errs.ValidationError},
		"another SHA-256":   {[]storage.Part{{Number: 1, SHA256: sumOf(nil)}}, errs.Conflict},
		"one that is not":   {[]storage.Part{one, two, {Number: 3}}, errs.Conflict},
		"another size of 1": {[]storage.Part{{Number: 1, Size: 5}}, errs.Conflict},
	} {
		_, _, err := f.complete(u, c.parts)
		wantCode(t, name, err, c.code)
	}
	if _, err = f.api.PutPart(f.ctx(), f.scope(), u.ID, 3, pieces{bytes.NewReader(part(3)), nil}, -1, nil); err != nil {
		t.Fatalf("a part without a length: %v", err)
	}
	if _, _, err := f.complete(u, nil); err != nil {
		t.Fatal(err)
	}
	small := f.begin(storage.NewUpload{Path: path("s"), Size: -1})
	_, _, err = f.complete(small, nil)
	wantCode(t, "0 parts without a size", err, errs.Conflict)
	f.mustPutPart(small, 1, []byte("x"))
	f.mustPutPart(small, 2, []byte("y"))
	_, _, err = f.complete(small, nil)
	wantCode(t, "small parts", err, errs.ValidationError)
	_, err = f.api.PutPart(f.ctx(), f.scope(), small.ID, 3, strings.NewReader("x"), -1, nil)
	wantCode(t, "no size at all", err, errs.ValidationError)
	_, err = f.api.PutPart(f.ctx(), f.scope(), small.ID, 3, strings.NewReader("x"), 6<<30, nil)
	wantCode(t, "6 GiB", err, errs.ValidationError)
	empty := f.begin(storage.NewUpload{Path: path("empty"), Size: 0, SHA256: sumOf(nil)})
	f.mustPutPart(empty, 1, nil)
	if o, _, err := f.complete(empty, nil); err != nil || o.Size != 0 {
		t.Errorf("an empty file: %+v %v", o, err)
	}
}

// Another project finds none of an upload.
func TestUploadOfAnotherProject(t *testing.T) {
	t.Parallel()
	f := setup(t)
	u := f.beginContent("f")
	f.mustPutPart(u, 1, part(1))
	for name, g := range map[string]*fixture{"project": f.other(f.caller.Tenant), "tenant": f.other(ids.New[ids.Tenant]())} {
		_, err := g.putPart(u, 1, part(1))
		wantCode(t, name+": part", err, errs.StorageObjectNotFound)
		_, _, err = g.complete(u, nil)
		wantCode(t, name+": complete", err, errs.StorageObjectNotFound)
		_, err = g.api.UploadOf(g.ctx(), g.scope(), u.ID)
		wantCode(t, name+": get", err, errs.StorageObjectNotFound)
		_, err = g.api.PartsOf(g.ctx(), g.scope(), u.ID, 0, 10)
		wantCode(t, name+": parts", err, errs.StorageObjectNotFound)
		_, err = g.api.PartTargets(g.ctx(), g.scope(), u.ID, []storage.PartRequest{{Number: 1, Size: blob.MinPart, SHA256: sumOf(nil)}})
		wantCode(t, name+": targets", err, errs.StorageObjectNotFound)
		wantCode(t, name+": abort", g.abort(u), errs.StorageObjectNotFound)
		if all, err := g.api.Uploads(g.ctx(), g.scope(), uuid.Nil, 10); err != nil || len(all) != 0 {
			t.Errorf("%s: %v %v", name, all, err)
		}
	}
	if all, err := f.api.Uploads(f.ctx(), f.scope(), uuid.Nil, 10); err != nil || len(all) != 1 || all[0].ID != u.ID || all[0].Path.String() != "f" {
		t.Errorf("%v %v", all, err)
	}
}

// A part that arrives while the upload is completed is not part of the file, and its request fails.
func TestCompleteWhileAPartRuns(t *testing.T) {
	t.Parallel()
	f := setup(t)
	u := f.begin(storage.NewUpload{Path: path("f"), Size: -1})
	f.mustPutPart(u, 1, part(1))
	sent, release := io.Pipe()
	done := make(chan error)
	go func() {
		_, err := f.api.PutPart(f.ctx(), f.scope(), u.ID, 2, sent, 4, nil)
		done <- err
	}()
	if _, err := release.Write([]byte("ab")); err != nil { // the part is being stored
		t.Fatal(err)
	}
	o, _, err := f.complete(u, nil)
	if err != nil || o.Size != blob.MinPart {
		t.Errorf("%+v %v", o, err)
	}
	_, _ = release.Write([]byte("cd"))
	_ = release.Close()
	wantCode(t, "the part", <-done, errs.Conflict)
	f.wantUsage(blob.MinPart, 0, 1)
}

// Two requests with other bytes for one part can end in another sequence than their bytes were stored. The part then counts
// as missing.
func TestReplacedPart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	u := f.begin(storage.NewUpload{Path: path("f"), Size: 3})
	f.mustPutPart(u, 1, []byte("abc"))
	var handle string
	if err := f.db.QueryRow(f.ctx(), `SELECT handle FROM storage_uploads WHERE id = $1`, u.ID).Scan(&handle); err != nil {
		t.Fatal(err)
	}
	if _, err := f.blobs.PutPart(f.ctx(), blob.Upload{ID: u.ID, Handle: handle}, 1, strings.NewReader("xyz"), 3); err != nil {
		t.Fatal(err)
	}
	_, _, err := f.complete(u, nil)
	wantCode(t, "complete", err, errs.Conflict)
	if got := f.arrived(u, 10); len(got) != 0 {
		t.Errorf("parts %v have arrived", got)
	}
	f.mustPutPart(u, 1, []byte("abc"))
	if _, _, err := f.complete(u, nil); err != nil {
		t.Fatal(err)
	}
	if text, err := f.read("f"); text != "abc" || err != nil {
		t.Errorf("%q %v", text, err)
	}
}

// Bytes that differ from the announced SHA-256 never become a file, and their reservation ends.
func TestWrongDigestOfAnUpload(t *testing.T) {
	t.Parallel()
	f := setup(t)
	u := f.begin(storage.NewUpload{Path: path("f"), Size: 3, SHA256: sumOf([]byte("abc"))})
	f.mustPutPart(u, 1, []byte("xyz"))
	_, _, err := f.complete(u, nil)
	wantCode(t, "complete", err, errs.ValidationError)
	f.wantUsage(0, 0, 0)
	_, err = f.api.Stat(f.ctx(), f.scope(), path("f"))
	wantCode(t, "the file", err, errs.StorageObjectNotFound)
	f.cleanUp()
	if n, _ := f.backend(); n != 0 {
		t.Errorf("%d backend objects are left", n)
	}
}
