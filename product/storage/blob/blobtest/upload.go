package blobtest

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/product/storage/blob"
)

func begin(t *testing.T, s blob.Store) blob.Upload {
	t.Helper()
	id := NewID(t)
	u, err := s.Begin(t.Context(), id)
	if err != nil || u.ID != id || u.Handle == "" {
		t.Fatalf("begin: %+v, %v", u, err)
	}
	return u
}

func putPart(t *testing.T, s blob.Store, u blob.Upload, number int, content []byte) blob.Part {
	t.Helper()
	p, err := s.PutPart(t.Context(), u, number, bytes.NewReader(content), int64(len(content)))
	if err != nil || p.Number != number || p.Size != int64(len(content)) || p.Tag == "" {
		t.Fatalf("part %d: %+v, %v", number, p, err)
	}
	return p
}

func stored(t *testing.T, s blob.Store, u blob.Upload) []blob.Part {
	t.Helper()
	parts, err := s.Parts(t.Context(), u)
	if err != nil {
		t.Fatalf("parts: %v", err)
	}
	return parts
}

// complete uploads content in parts of the smallest size.
func complete(t *testing.T, s blob.Store, content []byte) uuid.UUID {
	t.Helper()
	u := begin(t, s)
	number := 0
	for part := range slices.Chunk(content, blob.MinPart) {
		number++
		putPart(t, s, u, number, part)
	}
	if err := s.Complete(t.Context(), u, stored(t, s, u)); err != nil {
		t.Fatalf("complete: %v", err)
	}
	return u.ID
}

// parts puts them in another sequence than that of their numbers, which have gaps.
func parts(t *testing.T, s blob.Store) {
	t.Helper()
	u := begin(t, s)
	content := Bytes(3*blob.MinPart + 9)
	var want []blob.Part
	for i, part := range slices.Backward(slices.Collect(slices.Chunk(content, blob.MinPart))) {
		want = append(want, putPart(t, s, u, 1+i*7, part))
	}
	slices.Reverse(want)
	if got := stored(t, s, u); !slices.Equal(got, want) {
		t.Fatalf("parts %+v, want %+v", got, want)
	}
	if err := s.Complete(t.Context(), u, want); err != nil {
		t.Fatalf("complete: %v", err)
	}
	equal(t, "the object", get(t, s, u.ID, 0, -1), content)
	info, err := s.Stat(t.Context(), u.ID)
	if err != nil || info.Size != int64(len(content)) {
		t.Errorf("%+v, %v", info, err)
	}
	if ids := list(t, s, uuid.Nil); !slices.Equal(ids, []uuid.UUID{u.ID}) {
		t.Errorf("listed: %v", ids)
	}
	_, err = s.PutPart(t.Context(), u, 1, bytes.NewReader(nil), 0)
	is(t, "a part of a completed upload", err, blob.ErrNotFound)
}

func replacedPart(t *testing.T, s blob.Store) {
	t.Helper()
	u := begin(t, s)
	first := putPart(t, s, u, 1, Bytes(100))
	content := Bytes(100)
	second := putPart(t, s, u, 1, content)
	if first.Tag == second.Tag {
		t.Error("both parts have one tag")
	}
	putPart(t, s, u, 2, Bytes(50)) // is not completed
	if got := stored(t, s, u); len(got) != 2 || got[0] != second {
		t.Errorf("parts %+v, want %+v and another", got, second)
	}
	is(t, "complete with the replaced part", s.Complete(t.Context(), u, []blob.Part{first}), blob.ErrPart)
	if err := s.Complete(t.Context(), u, []blob.Part{second}); err != nil {
		t.Fatal(err)
	}
	equal(t, "the object", get(t, s, u.ID, 0, -1), content)
}

func parallelParts(t *testing.T, s blob.Store) {
	t.Helper()
	u := begin(t, s)
	var mu sync.Mutex
	contents := map[blob.Part][]byte{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			content := Bytes(200_000)
			p, err := s.PutPart(t.Context(), u, 1, bytes.NewReader(content), int64(len(content)))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			contents[p] = content
		})
	}
	wg.Wait()
	got := stored(t, s, u)
	if len(got) != 1 || contents[got[0]] == nil {
		t.Fatalf("parts %+v are none of %d", got, len(contents))
	}
	if err := s.Complete(t.Context(), u, got); err != nil {
		t.Fatal(err)
	}
	equal(t, "the object", get(t, s, u.ID, 0, -1), contents[got[0]])
}

func wrongParts(t *testing.T, s blob.Store) {
	t.Helper()
	u := begin(t, s)
	content := Bytes(blob.MinPart + 10)
	one, two := putPart(t, s, u, 1, content[:blob.MinPart]), putPart(t, s, u, 2, content[blob.MinPart:])
	altered, absent, larger := two, two, two
	altered.Tag, absent.Number, larger.Size = one.Tag, 3, two.Size+1
	for name, list := range map[string][]blob.Part{
		"no part": nil, "a missing part": {one, absent}, "an altered part": {one, altered}, "another size": {one, larger}, "out of sequence": {two, one}, "twice": {one, one},
	} {
		is(t, name, s.Complete(t.Context(), u, list), blob.ErrPart)
		if _, err := s.Stat(t.Context(), u.ID); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%s: the object exists: %v", name, err)
		}
		if got := stored(t, s, u); !slices.Equal(got, []blob.Part{one, two}) {
			t.Fatalf("%s: the parts are %+v", name, got)
		}
	}
	if err := s.Complete(t.Context(), u, []blob.Part{one, two}); err != nil {
		t.Fatalf("complete after errors: %v", err)
	}
	equal(t, "the object", get(t, s, u.ID, 0, -1), content)
}

func completeTwice(t *testing.T, s blob.Store) {
	t.Helper()
	u := begin(t, s)
	content := Bytes(1000)
	parts := []blob.Part{putPart(t, s, u, 1, content)}
	for range 3 {
		if err := s.Complete(t.Context(), u, parts); err != nil {
			t.Fatal(err)
		}
		equal(t, "the object", get(t, s, u.ID, 0, -1), content)
	}
	other := parts[0]
	other.Size++
	is(t, "a repetition with other parts", s.Complete(t.Context(), u, []blob.Part{other}), blob.ErrPart)
	if err := s.Abort(t.Context(), u); err != nil {
		t.Errorf("abort after complete: %v", err)
	}
	equal(t, "the object after abort", get(t, s, u.ID, 0, -1), content)
	if err := s.Delete(t.Context(), u.ID); err != nil {
		t.Fatal(err)
	}
	is(t, "a repetition after deletion", s.Complete(t.Context(), u, parts), blob.ErrNotFound)
}

func parallelComplete(t *testing.T, s blob.Store) {
	t.Helper()
	for range 5 {
		u := begin(t, s)
		content := Bytes(1000)
		parts := []blob.Part{putPart(t, s, u, 1, content)}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := s.Complete(t.Context(), u, parts); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		equal(t, "the object", get(t, s, u.ID, 0, -1), content)
	}
}

func abort(t *testing.T, s blob.Store) {
	t.Helper()
	u := begin(t, s)
	p := putPart(t, s, u, 1, Bytes(1000))
	for range 2 {
		if err := s.Abort(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Parts(t.Context(), u)
	is(t, "parts", err, blob.ErrNotFound)
	_, err = s.PutPart(t.Context(), u, 1, bytes.NewReader(nil), 0)
	is(t, "put a part", err, blob.ErrNotFound)
	is(t, "complete", s.Complete(t.Context(), u, []blob.Part{p}), blob.ErrNotFound)
	absent(t, s, u.ID)
}

func partNumbers(t *testing.T, s blob.Store) {
	t.Helper()
	u := begin(t, s)
	for _, number := range []int{-1, 0, blob.MaxParts + 1} {
		_, err := s.PutPart(t.Context(), u, number, bytes.NewReader(nil), 0)
		is(t, "the number", err, blob.ErrPart)
	}
	last := putPart(t, s, u, blob.MaxParts, []byte("the last one"))
	first := putPart(t, s, u, 1, Bytes(blob.MinPart))
	if got := stored(t, s, u); !slices.Equal(got, []blob.Part{first, last}) {
		t.Errorf("parts %+v", got)
	}
	if err := s.Complete(t.Context(), u, []blob.Part{first, last}); err != nil {
		t.Error(err)
	}
}

// before lists uploads that began before a time.
func before(t *testing.T, s blob.Store, at time.Time) []blob.Upload {
	t.Helper()
	var found []blob.Upload
	for u, err := range s.Uploads(t.Context(), at) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, u)
	}
	return found
}

func uploads(t *testing.T, s blob.Store) {
	t.Helper()
	open, completed, aborted := begin(t, s), begin(t, s), begin(t, s)
	var more []blob.Upload
	for range 5 {
		more = append(more, begin(t, s))
	}
	again, err := s.Begin(t.Context(), open.ID) // an object may have several uploads
	if err != nil || again == open {
		t.Fatalf("%+v, %v", again, err)
	}
	want := append([]blob.Upload{open, completed, aborted, again}, more...)
	future, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour) //nolint:forbidigo // the object store has its own clock
	if got := before(t, s, future); !sameUploads(got, want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if got := before(t, s, past); len(got) > 0 {
		t.Errorf("before an hour ago: %+v", got)
	}
	if err := s.Complete(t.Context(), completed, []blob.Part{putPart(t, s, completed, 1, []byte("a"))}); err != nil {
		t.Fatal(err)
	}
	if err := s.Abort(t.Context(), aborted); err != nil {
		t.Fatal(err)
	}
	want = append([]blob.Upload{open, again}, more...)
	if got := before(t, s, future); !sameUploads(got, want) {
		t.Errorf("after the end of two: %+v, want %+v", got, want)
	}
}

func sameUploads(a, b []blob.Upload) bool {
	if len(a) != len(b) {
		return false
	}
	for _, u := range a {
		if !slices.Contains(b, u) {
			return false
		}
	}
	return true
}

func foreignUploads(t *testing.T, s blob.Store) {
	t.Helper()
	u := begin(t, s)
	p := putPart(t, s, u, 1, []byte("content"))
	other := put(t, s, []byte("other"))
	for name, u := range map[string]blob.Upload{
		"another id": {ID: NewID(t), Handle: u.Handle}, "a stored object": {ID: other, Handle: u.Handle}, "another handle": {ID: u.ID, Handle: uuid.NewString()},
		"a path": {ID: u.ID, Handle: "../../objects"}, "no handle": {ID: u.ID},
	} {
		_, err := s.Parts(t.Context(), u)
		is(t, name+": parts", err, blob.ErrNotFound)
		_, err = s.PutPart(t.Context(), u, 1, bytes.NewReader([]byte("b")), 1)
		is(t, name+": put a part", err, blob.ErrNotFound)
		is(t, name+": complete", s.Complete(t.Context(), u, []blob.Part{p}), blob.ErrNotFound)
		if err := s.Abort(t.Context(), u); err != nil {
			t.Errorf("%s: abort: %v", name, err)
		}
	}
	equal(t, "the object", get(t, s, other, 0, -1), []byte("other"))
	if got := stored(t, s, u); !slices.Equal(got, []blob.Part{p}) {
		t.Errorf("parts %+v", got)
	}
}

func invisible(t *testing.T, s blob.Store) {
	t.Helper()
	u := begin(t, s)
	putPart(t, s, u, 1, []byte("content"))
	absent(t, s, u.ID)
	if err := s.Delete(t.Context(), u.ID); err != nil {
		t.Fatal(err)
	}
	if len(stored(t, s, u)) != 1 {
		t.Error("the deletion of the object has removed the upload")
	}
}
