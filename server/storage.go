package server

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/blob/open"
)

// openStorage opens the object store for the roles that use it, or returns nil. A store that cannot be reached at the moment
// is no error: storage operations fail until it is, and the rest works.
func (c Config) openStorage(ctx context.Context) (*open.Monitor, error) {
	if !c.hasRole(RoleAPI) && !c.hasRole(RoleWork) {
		return nil, nil //nolint:nilnil // no role uses it
	}
	store, err := open.Open(ctx, open.Config{
		Storage: c.Profile.Storage, Dir: cmp.Or(c.ObjectsDir, filepath.Join(c.StateDir, "objects")), Credentials: c.Credentials, Clock: c.Clock,
	})
	if err != nil {
		return nil, err
	}
	return &open.Monitor{Store: store, Log: c.Log}, nil
}

// blobs returns the object store, or nil without the roles that use it.
func (s *Server) blobs() blob.Store {
	if s.storage == nil {
		return nil
	}
	return s.storage.Store
}

func (s *Server) askStorage(context.Context) (rest.Status, string) {
	if failure := s.storage.Failure(); failure != "" {
		return rest.Degraded, "the object store failed its test: " + failure
	}
	return rest.OK, ""
}
