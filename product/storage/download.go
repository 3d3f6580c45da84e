package storage

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// Open returns a file and its bytes. The reader opens the backend object at its first read.
func (s *Service) Open(ctx context.Context, at Scope, p objectpath.Path) (Object, *blob.Reader, error) {
	o, err := s.Stat(ctx, at, p)
	switch {
	case err != nil:
		return o, nil, err
	case o.Type == Folder:
		return o, nil, errs.New(errs.Conflict, "%q is a folder", p).At("path").Try("download a file")
	}
	return o, s.OpenObject(ctx, o), nil
}

// OpenObject returns the bytes that a file had when it was read. Another file may be at its path meanwhile.
func (s *Service) OpenObject(ctx context.Context, o Object) *blob.Reader {
	return blob.NewReader(ctx, s.Blobs, o.Key, o.Size)
}

// SignedDownload returns a URL of the object store for a file, or false where the server transports the bytes itself.
// answer are headers of its response.
func (s *Service) SignedDownload(ctx context.Context, o Object, answer map[string]string, life time.Duration) (string, bool, error) {
	signed, err := s.Blobs.Sign(ctx, blob.Request{Method: http.MethodGet, ID: o.Key, Answer: answer, Life: life})
	if errors.Is(err, blob.ErrUnsigned) {
		return "", false, nil
	}
	return signed.URL, err == nil, Unavailable(err)
}
