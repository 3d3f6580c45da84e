package storage

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

type slowReader struct{ may chan struct{} }

func (s slowReader) Read(b []byte) (int, error) {
	<-s.may
	return copy(b, "x"), nil
}

// The end of a gate waits for a reader, and no read follows it.
func TestAGateEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := slowReader{make(chan struct{})}
		g := &gate{r: slow}
		read, ended := false, false
		go func() {
			_, _ = g.Read(make([]byte, 1))
			read = true
		}()
		synctest.Wait()
		go func() {
			g.end()
			ended = true
		}()
		close(slow.may)
		synctest.Wait()
		if !read || !ended {
			t.Errorf("read %v, ended %v", read, ended)
		}
		if n, err := g.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %d, %v", n, err)
		}
	})
	if text, err := io.ReadAll(&gate{r: strings.NewReader("text")}); string(text) != "text" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
