package blob

import (
	"context"
	"errors"
	"io"

	"github.com/google/uuid"
)

// Reader reads a backend object from any offset. It opens the object at its first read.
type Reader struct {
	ctx    context.Context //nolint:containedctx // an io.Reader has no parameter for it
	store  Store
	id     uuid.UUID
	size   int64
	offset int64
	from   io.ReadCloser
}

// NewReader returns a reader of a backend object of a known size.
func NewReader(ctx context.Context, s Store, id uuid.UUID, size int64) *Reader {
	return &Reader{ctx: ctx, store: s, id: id, size: size}
}

// Read reads from the current offset.
func (r *Reader) Read(p []byte) (int, error) {
	if r.offset >= r.size {
		return 0, io.EOF
	}
	if r.from == nil {
		from, err := r.store.Get(r.ctx, r.id, r.offset, -1)
		if err != nil {
			return 0, err
		}
		r.from = from
	}
	n, err := r.from.Read(p)
	r.offset += int64(n)
	if errors.Is(err, io.EOF) && r.offset < r.size {
		err = io.ErrUnexpectedEOF // the object store has lost bytes
	}
	return n, err
}

// spanWriter is a reader of an object store of files: it gives a writer the file itself.
type spanWriter interface {
	WriteSpan(w io.Writer, size int64) (int64, error)
}

// span is short enough for a slow client to read it before the deadline of the response.
const span = 256 << 10

// Send writes the rest of a limited Reader to a connection. It calls before ahead of each span. Where the object store has
// files, the connection can use sendfile. ok is false for another reader, of which nothing was written.
func Send(to io.Writer, src io.Reader, before func() error) (written int64, ok bool, err error) {
	l, ok := src.(*io.LimitedReader)
	if !ok {
		return 0, false, nil
	}
	r, ok := l.R.(*Reader)
	if !ok {
		return 0, false, nil
	}
	for l.N > 0 && err == nil {
		if err = before(); err != nil {
			break
		}
		var n int64
		n, err = r.writeSpan(to, min(span, l.N))
		written += n
		l.N -= n
	}
	return written, true, err
}

// writeSpan writes the next bytes, at most size.
func (r *Reader) writeSpan(w io.Writer, size int64) (int64, error) {
	if r.from == nil && r.offset < r.size {
		from, err := r.store.Get(r.ctx, r.id, r.offset, -1)
		if err != nil {
			return 0, err
		}
		r.from = from
	}
	direct, ok := r.from.(spanWriter)
	if !ok {
		return io.CopyN(w, r, size)
	}
	n, err := direct.WriteSpan(w, size)
	r.offset += n
	if n == 0 && err == nil {
		err = io.ErrUnexpectedEOF // the object store has lost bytes
	}
	return n, err
}

// Seek sets the offset.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, errors.New("an offset before the first byte")
	}
	if offset != r.offset {
		_ = r.Close()
	}
	r.offset = offset
	return offset, nil
}

// Close closes the backend object.
func (r *Reader) Close() error {
	if r.from == nil {
		return nil
	}
	err := r.from.Close()
	r.from = nil
	return err
}
