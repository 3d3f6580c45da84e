package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// A store that has received all announced bytes may already have stored them, so a longer reader fails before.
func TestExact(t *testing.T) {
	t.Parallel()
	failure := errors.New("disconnected")
	for name, c := range map[string]struct {
		from io.Reader
		size int64
		want int64
		err  error
	}{
		"as announced":                  {strings.NewReader("abcd"), 4, 4, nil},
		"byte by byte":                  {iotest.OneByteReader(strings.NewReader("abcd")), 4, 4, nil},
		"the end with the last bytes":   {iotest.DataErrReader(strings.NewReader("abcd")), 4, 4, nil},
		"empty":                         {strings.NewReader(""), 0, 0, nil},
		"not announced":                 {strings.NewReader("abcd"), -1, 4, nil},
		"short":                         {strings.NewReader("abc"), 4, 3, ErrSize},
		"short, with the last bytes":    {iotest.DataErrReader(strings.NewReader("abc")), 4, 3, ErrSize},
		"long":                          {strings.NewReader("abcde"), 4, 3, ErrSize},
		"long, byte by byte":            {iotest.OneByteReader(strings.NewReader("abcde")), 4, 3, ErrSize},
		"not empty":                     {strings.NewReader("a"), 0, 0, ErrSize},
		"a failure":                     {io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(failure)), 4, 2, failure},
		"a failure, after all bytes":    {io.MultiReader(strings.NewReader("abcd"), iotest.ErrReader(failure)), 4, 3, failure},
		"a failure without a size":      {io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(failure)), -1, 2, failure},
		"a failure of an empty reader ": {iotest.ErrReader(failure), 0, 0, failure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewExact(t.Context(), c.from, c.size)
			var got bytes.Buffer
			_, err := io.Copy(&got, struct{ io.Reader }{r})
			if !errors.Is(err, c.err) || !errors.Is(r.Err(), c.err) {
				t.Errorf("%v, then %v, want %v", err, r.Err(), c.err)
			}
			if int64(got.Len()) > c.want || c.err == nil && int64(got.Len()) != c.want {
				t.Errorf("%d bytes, want %d", got.Len(), c.want)
			}
			if c.err == nil && r.Len() != c.want {
				t.Errorf("counted %d, want %d", r.Len(), c.want)
			}
		})
	}
}

// A body that the end of the context has cut is not a shorter object.
func TestExactEndsWithTheContext(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{4, -1} {
		ctx, cancel := context.WithCancel(t.Context())
		r := NewExact(ctx, iotest.OneByteReader(strings.NewReader("abcd")), size)
		one := make([]byte, 1)
		if n, err := r.Read(one); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		cancel()
		if n, err := r.Read(one); n != 0 || !errors.Is(err, context.Canceled) || !errors.Is(r.Err(), context.Canceled) {
			t.Errorf("size %d: %d bytes, %v", size, n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ends := NewExact(ctx, cancelling{cancel}, -1)
	if _, err := io.ReadAll(ends); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader that the context has ended: %v", err)
	}
}

type cancelling struct{ cancel context.CancelFunc }

func (c cancelling) Read([]byte) (int, error) {
	c.cancel()
	return 0, io.EOF
}

func TestPartsAscend(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		numbers []int
		ok      bool
	}{
		"none": {}, "one": {[]int{1}, true}, "with gaps": {[]int{1, 7, MaxParts}, true}, "from 0": {[]int{0}, false},
		"twice": {[]int{1, 1}, false}, "backwards": {[]int{2, 1}, false}, "beyond": {[]int{MaxParts + 1}, false},
	} {
		var parts []Part
		for _, n := range c.numbers {
			parts = append(parts, Part{Number: n})
		}
		if err := CheckParts(parts); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrPart) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
