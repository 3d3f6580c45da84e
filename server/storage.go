package server

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/s3"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/blob/observed"
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
	return &open.Monitor{Store: observed.New(store, c.Clock), Log: c.Log}, nil
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

// offerMounts lets requests of allocations have mounts, where nodes reach an S3 endpoint.
func (s *Server) offerMounts() {
	if s.mountURL() != "" {
		s.services[RoleAPI].StorageKeys.MayMount = mayMount(s.may())
	}
}

func (s *Server) may() func(string, identity.Caller) bool {
	return rightsTo(func() policies.RoleTable { return s.policies.Latest().Roles })
}

// serveStorage starts the S3 endpoint, if it has an address. It does not use the public URL of the API: clients sign the domain
// name that they use.
func (s *Server) serveStorage(ctx context.Context, api *rest.Server) {
	if s.storageListener == nil {
		return
	}
	a := s.services[RoleAPI]
	endpoint := &s3.Server{Config: s3.Config{
		Storage: a.Storage, Keys: a.StorageKeys, May: s.may(), Limits: api.Limiter(),
		Region: cmp.Or(s.cfg.Profile.Region, s3.AnyRegion), Domain: s.cfg.StorageDomain, Log: s.cfg.Log, Clock: s.cfg.Clock,
	}}
	front := middleware.Front{Proxies: s.cfg.Front.Proxies}
	server := middleware.NewHTTPServer(front.Handler(readOnly(s.gate, endpoint)), s.cfg.Log)
	s.group.Go(func() error { return serveHTTP(ctx, server, s.storageListener, func() {}) })
}

// mayMount decides by the operations that a mount needs.
func mayMount(may func(string, identity.Caller) bool) func(identity.Caller, bool) bool {
	return func(c identity.Caller, readOnly bool) bool {
		return may("listStorage", c) && may("downloadStorage", c) && (readOnly || may("uploadStorage", c) && may("deleteStorage", c))
	}
}

// rightsTo returns a function that decides as requests of the API are decided.
func rightsTo(roles func() policies.RoleTable) func(string, identity.Caller) bool {
	may := map[string]func(identity.Caller) bool{}
	for _, operation := range s3.Operations() {
		may[operation] = request.RightTo(operation, roles)
	}
	return func(operation string, c identity.Caller) bool { return may[operation](c) }
}
