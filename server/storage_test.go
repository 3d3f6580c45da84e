package server

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/secretref/secretreftest"
)

// An object store that cannot be reached does not prevent the start, and health reports it. A wrong configuration prevents
// the start.
func TestTheObjectStoreAtStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := Config{Roles: []Role{RoleAPI}, StateDir: dir, Log: slog.New(slog.DiscardHandler)}
	m, err := c.openStorage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "objects", "*")); err != nil || len(names) == 0 {
		t.Errorf("the default is not the folder objects: %v, %v", names, err)
	}
	s := &Server{storage: m}
	if status, message := s.askStorage(t.Context()); status != rest.OK {
		t.Errorf("%s: %s", status, message)
	}
	c.Profile.Storage = desired.Storage{Driver: "s3", Endpoint: "http://127.0.0.1:1", Bucket: "objects", CredentialsRef: "credential:none"}
	if _, err := c.openStorage(t.Context()); err == nil || !strings.Contains(err.Error(), "credential:none") {
		t.Errorf("an unknown credential: %v", err)
	}
	c.Credentials = secretreftest.Credentials(t, "http://127.0.0.1:1", map[string]string{"objects": "a:b"})
	c.Profile.Storage.CredentialsRef = "credential:objects"
	if s.storage, err = c.openStorage(t.Context()); err != nil {
		t.Fatalf("a service that is away: %v", err)
	}
	c.Roles = []Role{RoleNode}
	if m, err := c.openStorage(t.Context()); m != nil || err != nil {
		t.Errorf("another role: %v, %v", m, err)
	}
}
