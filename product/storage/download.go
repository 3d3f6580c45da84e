package storage

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// Open returns a file and its bytes. The reader opens the backend object at its first read.
func (s *Service) Open(ctx context.Context, at Scope, p objectpath.Path) (Object, *Content, error) {
	o, err := s.Stat(ctx, at, p)
	switch {
	case err != nil:
		return o, nil, err
	case o.Type == Folder:
		return o, nil, errs.New(errs.Conflict, "%q is a folder", p).At("path").Try("download a file")
	}
	return o, &Content{ctx: ctx, blobs: s.Blobs, object: o}, nil
}

// Content reads the bytes of a file from any offset.
type Content struct {
	ctx    context.Context //nolint:containedctx // an io.Reader has no parameter for it
	blobs  blob.Store
	object Object
	offset int64
	from   io.ReadCloser
}

// Read reads from the current offset.
func (c *Content) Read(p []byte) (int, error) {
	if c.offset >= c.object.Size {
		return 0, io.EOF
	}
	if c.from == nil {
		from, err := c.blobs.Get(c.ctx, c.object.Key, c.offset, -1)
		if err != nil {
			return 0, Unavailable(err)
		}
		c.from = from
	}
	n, err := c.from.Read(p)
	c.offset += int64(n)
	if errors.Is(err, io.EOF) && c.offset < c.object.Size {
		err = io.ErrUnexpectedEOF // the object store has lost bytes
	}
	return n, err
}

// Seek sets the offset.
func (c *Content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.offset
	case io.SeekEnd:
		offset += c.object.Size
	}
	if offset < 0 {
		return 0, errors.New("an offset before the first byte")
	}
	if offset != c.offset {
		_ = c.Close()
	}
	c.offset = offset
	return offset, nil
}

// Close closes the backend object.
func (c *Content) Close() error {
	if c.from == nil {
		return nil
	}
	err := c.from.Close()
	c.from = nil
	return err
}

// SignedDownload returns a URL of the object store for a file, or false where the server transports the bytes itself.
// answer are headers of its response.
func (s *Service) SignedDownload(ctx context.Context, at Scope, o Object, answer map[string]string) (string, bool, error) {
	return s.signedDownload(ctx, o, answer, s.Limits(at.Tenant, at.Project).SignedURL)
}

func (s *Service) signedDownload(ctx context.Context, o Object, answer map[string]string, life time.Duration) (string, bool, error) {
	signed, err := s.Blobs.Sign(ctx, blob.Request{Method: http.MethodGet, ID: o.Key, Answer: answer, Life: life})
	if errors.Is(err, blob.ErrUnsigned) {
		return "", false, nil
	}
	return signed.URL, err == nil, Unavailable(err)
}
