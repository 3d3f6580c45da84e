// Package blobtest tests adapters of the port product/storage/blob against the guarantees that product/storage depends on.
// Each adapter passes the same tests: a folder, and a real S3 server.
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// NewID returns an id as product/storage makes them.
func NewID(t testing.TB) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Bytes returns n bytes that differ from those of every other call.
func Bytes(n int) []byte {
	b := make([]byte, n)
	var seed [32]byte
	id := uuid.New()
	copy(seed[:], id[:])
	_, _ = rand.NewChaCha8(seed).Read(b) // it never fails
	return b
}

// Contract tests a new, empty store of each call of open. The client sends signed requests.
func Contract(t *testing.T, client *http.Client, open func(*testing.T) blob.Store) {
	t.Helper()
	signing := func(t *testing.T, s blob.Store) {
		t.Helper()
		signing(t, s, client)
	}
	for name, test := range map[string]func(*testing.T, blob.Store){
		"an object is read as it was put":               putAndGet,
		"a range is cut at the end":                     ranges,
		"a reader of another length stores nothing":     lengths,
		"a failing reader stores nothing":               failingReader,
		"the end of the context stores nothing":         cancelled,
		"an ended context reads and writes nothing":     ended,
		"a missing object is not found":                 missing,
		"objects are put at the same time":              parallelPuts,
		"objects are listed in the sequence of ids":     listing,
		"a signed URL has one purpose":                  signing,
		"parts become an object":                        parts,
		"a part is replaced as a whole":                 replacedPart,
		"a part that is put at the same time is whole":  parallelParts,
		"only stored parts are completed":               wrongParts,
		"a repeated completion succeeds":                completeTwice,
		"completions at the same time make one object":  parallelComplete,
		"an aborted upload is gone":                     abort,
		"a part number is possible":                     partNumbers,
		"uploads are listed until they end":             uploads,
		"an upload of another object is not found":      foreignUploads,
		"an upload is invisible until it is completed":  invisible,
		"the capacity is plausible where it is defined": space,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func put(t *testing.T, s blob.Store, content []byte) uuid.UUID {
	t.Helper()
	id := NewID(t)
	if n, err := s.Put(t.Context(), id, bytes.NewReader(content), int64(len(content))); err != nil || n != int64(len(content)) {
		t.Fatalf("put %d bytes: %d, %v", len(content), n, err)
	}
	return id
}

func get(t *testing.T, s blob.Store, id uuid.UUID, offset, length int64) []byte {
	t.Helper()
	r, err := s.Get(t.Context(), id, offset, length)
	if err != nil {
		t.Fatalf("get %d from %d: %v", length, offset, err)
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatalf("read %d from %d: %v", length, offset, err)
	}
	return got
}

func equal(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes with SHA-256 %x, want %d with %x", what, len(got), sha256.Sum256(got), len(want), sha256.Sum256(want))
	}
}

func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// absent fails if any method sees an object.
func absent(t *testing.T, s blob.Store, id uuid.UUID) {
	t.Helper()
	_, err := s.Stat(t.Context(), id)
	is(t, "stat", err, blob.ErrNotFound)
	if r, err := s.Get(t.Context(), id, 0, -1); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("get: %v", err)
		if err == nil {
			_ = r.Close()
		}
	}
	if ids := list(t, s, uuid.Nil); slices.Contains(ids, id) {
		t.Error("it is listed")
	}
}

func list(t *testing.T, s blob.Store, after uuid.UUID) (ids []uuid.UUID) {
	t.Helper()
	for info, err := range s.List(t.Context(), after) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, info.ID)
	}
	return ids
}

func putAndGet(t *testing.T, s blob.Store) {
	t.Helper()
	large := Bytes(6<<20 + 7)
	for name, content := range map[string][]byte{"empty": nil, "one byte": {7}, "several buffers": large} {
		for _, size := range []int64{int64(len(content)), -1} {
			id := NewID(t)
			n, err := s.Put(t.Context(), id, iotest.HalfReader(bytes.NewReader(content)), size)
			if err != nil || n != int64(len(content)) {
				t.Fatalf("%s, size %d: %d, %v", name, size, n, err)
			}
			equal(t, name, get(t, s, id, 0, -1), content)
			info, err := s.Stat(t.Context(), id)
			if err != nil || info.ID != id || info.Size != int64(len(content)) || info.Modified.IsZero() {
				t.Errorf("%s: %+v, %v", name, info, err)
			}
		}
	}
}

func ranges(t *testing.T, s blob.Store) {
	t.Helper()
	content := Bytes(2*blob.MinPart + 1000)
	for name, id := range map[string]uuid.UUID{"one put": put(t, s, content), "parts": complete(t, s, content)} {
		for _, r := range [][2]int64{
			{0, -1},
			{0, 0},
			{0, 1},
			{0, 10},
			{1, -1},
			{5, 0},
			{5, 7},
			{blob.MinPart - 3, 6},
			{blob.MinPart, -1},
			{blob.MinPart, blob.MinPart},
			{blob.MinPart - 1, blob.MinPart + 2},
			{2*blob.MinPart - 1, -1},
			{int64(len(content)) - 1, -1},
			{int64(len(content)) - 1, 100},
			{int64(len(content)), -1},
			{int64(len(content)), 5},
			{int64(len(content)) + 5, 5},
			{0, int64(len(content)) + 5},
		} {
			from := min(r[0], int64(len(content)))
			to := int64(len(content))
			if r[1] >= 0 {
				to = min(from+r[1], to)
			}
			equal(t, name, get(t, s, id, r[0], r[1]), content[from:to])
		}
		var b bytes.Buffer
		r, err := s.Get(t.Context(), id, 3, int64(len(content))-5)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(&b, r); err != nil || n != int64(len(content))-5 {
			t.Errorf("%s: copied %d, %v", name, n, err)
		}
		_ = r.Close()
		equal(t, name, b.Bytes(), content[3:len(content)-2])
	}
	empty := put(t, s, nil)
	for _, r := range [][2]int64{{0, -1}, {0, 5}, {3, -1}, {3, 5}} {
		equal(t, "empty", get(t, s, empty, r[0], r[1]), nil)
	}
}

func lengths(t *testing.T, s blob.Store) {
	t.Helper()
	content := Bytes(3 << 20)
	u := begin(t, s)
	for name, size := range map[string]int64{"short": int64(len(content)) + 1, "long": int64(len(content)) - 1, "not empty": 0} {
		id := NewID(t)
		_, err := s.Put(t.Context(), id, bytes.NewReader(content), size)
		is(t, name, err, blob.ErrSize)
		absent(t, s, id)
		_, err = s.PutPart(t.Context(), u, 1, bytes.NewReader(content), size)
		is(t, "part "+name, err, blob.ErrSize)
	}
	id := NewID(t)
	_, err := s.Put(t.Context(), id, strings.NewReader("abc"), 2)
	is(t, "a small one", err, blob.ErrSize)
	absent(t, s, id)
	if got, err := s.Parts(t.Context(), u); err != nil || len(got) != 0 {
		t.Errorf("parts %v, %v", got, err)
	}
}

func failingReader(t *testing.T, s blob.Store) {
	t.Helper()
	failure := errors.New("the client has disconnected")
	u := begin(t, s)
	for _, size := range []int64{4 << 20, -1} {
		id := NewID(t)
		_, err := s.Put(t.Context(), id, io.MultiReader(bytes.NewReader(Bytes(2<<20)), iotest.ErrReader(failure)), size)
		is(t, "put", err, failure)
		absent(t, s, id)
	}
	_, err := s.PutPart(t.Context(), u, 1, io.MultiReader(bytes.NewReader(Bytes(2<<20)), iotest.ErrReader(failure)), 4<<20)
	is(t, "put a part", err, failure)
	if got, err := s.Parts(t.Context(), u); err != nil || len(got) != 0 {
		t.Errorf("parts %v, %v", got, err)
	}
}

// cancelReader ends a context after some bytes.
type cancelReader struct {
	io.Reader

	cancel context.CancelFunc
}

func (c cancelReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		c.cancel()
	}
	return n, err
}

func cancelled(t *testing.T, s blob.Store) {
	t.Helper()
	u := begin(t, s)
	id := NewID(t)
	for name, put := range map[string]func(context.Context, io.Reader) (any, error){
		"put":                func(ctx context.Context, r io.Reader) (any, error) { return s.Put(ctx, id, r, 6<<20) },
		"put without a size": func(ctx context.Context, r io.Reader) (any, error) { return s.Put(ctx, id, r, -1) },
		"put a part":         func(ctx context.Context, r io.Reader) (any, error) { return s.PutPart(ctx, u, 1, r, 6<<20) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := put(ctx, io.MultiReader(cancelReader{bytes.NewReader(Bytes(3 << 20)), cancel}, bytes.NewReader(Bytes(3<<20))))
		cancel()
		is(t, name, err, context.Canceled)
		absent(t, s, id)
	}
	if got, err := s.Parts(t.Context(), u); err != nil || len(got) != 0 {
		t.Errorf("parts %v, %v", got, err)
	}
}

func ended(t *testing.T, s blob.Store) {
	t.Helper()
	id := put(t, s, []byte("content"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Put(ctx, NewID(t), strings.NewReader("content"), 7)
	is(t, "put", err, context.Canceled)
	for _, err := range s.List(ctx, uuid.Nil) {
		is(t, "list", err, context.Canceled)
	}
	equal(t, "the object", get(t, s, id, 0, -1), []byte("content"))
}

func missing(t *testing.T, s blob.Store) {
	t.Helper()
	absent(t, s, NewID(t))
	if r, err := s.Get(t.Context(), NewID(t), 5, 0); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("an empty range of a missing object: %v, %v", r, err)
	}
	if err := s.Delete(t.Context(), NewID(t)); err != nil {
		t.Errorf("delete: %v", err)
	}
	for name, id := range map[string]uuid.UUID{"one put": put(t, s, []byte("content")), "parts": complete(t, s, []byte("content"))} {
		for range 2 {
			if err := s.Delete(t.Context(), id); err != nil {
				t.Errorf("%s: delete: %v", name, err)
			}
			absent(t, s, id)
		}
	}
}

func parallelPuts(t *testing.T, s blob.Store) {
	t.Helper()
	var all sync.Map
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			content, id := Bytes(100_000), uuid.New()
			if _, err := s.Put(t.Context(), id, bytes.NewReader(content), int64(len(content))); err != nil {
				t.Error(err)
			}
			all.Store(id, content)
		})
	}
	wg.Wait()
	all.Range(func(id, content any) bool {
		equal(t, "an object", get(t, s, id.(uuid.UUID), 0, -1), content.([]byte)) //nolint:forcetypeassert // as stored above
		return true
	})
	if got := len(list(t, s, uuid.Nil)); got != 32 {
		t.Errorf("%d objects are listed", got)
	}
}

// listing uses ids in random sequence, and more of them than a page that the test of S3 uses.
func listing(t *testing.T, s blob.Store) {
	t.Helper()
	var want []uuid.UUID
	for i := range 25 {
		id := uuid.New()
		if i%2 == 0 {
			id = NewID(t)
		}
		if _, err := s.Put(t.Context(), id, strings.NewReader("abc"), 3); err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
	}
	_ = begin(t, s) // is none
	slices.SortFunc(want, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	if got := list(t, s, uuid.Nil); !slices.Equal(got, want) {
		t.Fatalf("%v\nwant %v", got, want)
	}
	for _, i := range []int{0, 11, 24} {
		if got := list(t, s, want[i]); !slices.Equal(got, want[i+1:]) {
			t.Errorf("after %d: %d objects, want %d", i, len(got), len(want)-i-1)
		}
	}
	between := want[3]
	between[15]++
	if got := list(t, s, between); !slices.Equal(got, want[4:]) {
		t.Errorf("after an id without an object: %d objects, want %d", len(got), len(want)-4)
	}
	for info, err := range s.List(t.Context(), uuid.Nil) {
		if err != nil || info.Size != 3 || info.Modified.IsZero() {
			t.Errorf("%+v, %v", info, err)
		}
		break // the rest is not read
	}
	for _, id := range want[:10] {
		if err := s.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(t, s, uuid.Nil); !slices.Equal(got, want[10:]) {
		t.Errorf("after deletions: %d objects", len(got))
	}
}

func space(t *testing.T, s blob.Store) {
	t.Helper()
	got, known, err := s.Space(t.Context())
	if err != nil || known && (got.Free <= 0 || got.Used < 0) || !known && got != (blob.Space{}) {
		t.Errorf("%+v, %t, %v", got, known, err)
	}
}
