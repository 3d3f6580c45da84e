package blob

import (
	"context"
	"io"
)

// Exact reads as many bytes as were announced. It reads one byte more before it returns the last ones, so that the object
// store never receives all bytes of a reader that is too long. After the end of the context it returns no more bytes.
type Exact struct {
	ctx  context.Context //nolint:containedctx // of one call
	from io.Reader
	size int64 // negative: not announced
	read int64
	err  error
}

// NewExact returns a reader of size bytes of from. A negative size means that from ends where it ends.
func NewExact(ctx context.Context, from io.Reader, size int64) *Exact {
	return &Exact{ctx: ctx, from: from, size: size}
}

// Len returns the number of bytes that were read.
func (e *Exact) Len() int64 { return e.read }

// Err returns why the bytes are not those announced: ErrSize, the failure of the reader, or the end of the context.
func (e *Exact) Err() error { return e.err }

// Read returns ErrSize in place of the last bytes of a reader that is too long, and in place of the end of one that is
// too short.
func (e *Exact) Read(p []byte) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	if e.size >= 0 && e.read == e.size {
		return 0, e.end()
	}
	if rest := e.size - e.read; e.size >= 0 && int64(len(p)) > rest {
		p = p[:rest]
	}
	n, err := e.from.Read(p)
	e.read += int64(n)
	switch {
	case e.ctx.Err() != nil: // it may have ended the reader
		err = e.ctx.Err()
	case err == io.EOF && e.size >= 0 && e.read < e.size: //nolint:errorlint // readers return it as it is
		err = ErrSize
	case (err == nil || err == io.EOF) && n > 0 && e.read == e.size: //nolint:errorlint // as above
		if err = e.end(); err == io.EOF { //nolint:errorlint // as above
			return n, nil
		}
	}
	if err != nil && err != io.EOF { //nolint:errorlint // as above
		e.err, n = err, 0
	}
	return n, err
}

// end returns io.EOF where the reader has no more bytes.
func (e *Exact) end() error {
	var next [1]byte
	n, err := io.ReadFull(e.from, next[:])
	switch {
	case n > 0:
		err = ErrSize
	case err == io.EOF:
		return err
	}
	e.err = err
	return err
}
