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
