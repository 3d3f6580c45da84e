package blob

import (
	"bytes"
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
			r := NewExact(c.from, c.size)
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
