package files

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// connection is a writer that can send files, as a TCP connection does.
type connection struct {
	bytes.Buffer

	fromFiles int64
}

func (c *connection) ReadFrom(src io.Reader) (int64, error) {
	n, err := c.Buffer.ReadFrom(src)
	if l, limited := src.(*io.LimitedReader); limited {
		if _, isFile := l.R.(*os.File); isFile {
			c.fromFiles += n
		}
	}
	return n, err
}

// The connection receives the files of an object, also of one of parts and from an offset, and the deadline moves before each span.
func TestSendGivesTheConnectionTheFile(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	text := strings.Repeat("0123456789", 100_000)
	whole := uuid.New()
	if _, err := s.Put(t.Context(), whole, strings.NewReader(text), int64(len(text))); err != nil {
		t.Fatal(err)
	}
	u, err := s.Begin(t.Context(), uuid.New())
	if err != nil {
		t.Fatal(err)
	}
	var parts []blob.Part
	for i, content := range []string{text[:400_000], text[400_000:]} {
		part, err := s.PutPart(t.Context(), u, i+1, strings.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
	}
	if err := s.Complete(t.Context(), u, parts); err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string]uuid.UUID{"one file": whole, "parts": u.ID} {
		r := blob.NewReader(t.Context(), s, id, int64(len(text)))
		if _, err := r.Seek(5, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		c, spans := &connection{}, 0
		n, ok, err := blob.Send(c, io.LimitReader(r, 900_000), func() error { spans++; return nil })
		if n != 900_000 || !ok || err != nil || c.String() != text[5:900_005] {
			t.Errorf("%s: %d bytes, %v %v", name, n, ok, err)
		}
		if c.fromFiles != n || spans < 4 {
			t.Errorf("%s: %d of %d bytes are from files, in %d spans", name, c.fromFiles, n, spans)
		}
		// What follows is read behind them.
		if rest, err := io.ReadAll(r); err != nil || string(rest) != text[900_005:] {
			t.Errorf("%s: %d bytes follow, %v", name, len(rest), err)
		}
		_ = r.Close()
	}
	if n, ok, err := blob.Send(&connection{}, strings.NewReader("x"), func() error { return nil }); n != 0 || ok || err != nil {
		t.Errorf("another reader: %d %v %v", n, ok, err)
	}
}

// A file that has fewer bytes than its row is an error, and not the end of the response.
func TestSendNoticesLostBytes(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	id := uuid.New()
	if _, err := s.Put(t.Context(), id, strings.NewReader("short"), 5); err != nil {
		t.Fatal(err)
	}
	r := blob.NewReader(t.Context(), s, id, 10)
	defer r.Close()
	if n, _, err := blob.Send(&connection{}, io.LimitReader(r, 10), func() error { return nil }); n != 5 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
}
