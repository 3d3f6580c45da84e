package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/platform/secret/keyfile"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
	"github.com/gpuaas/gpuaas/product/agentrelease"
)

// INV-76: the process of one role is stolen. Each role runs alone, with the login of its database role and without
// that of the owner. It has the private keys of its role, and none of its services signs with another.
func TestINV76EachRoleAloneHasItsKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // for the user of the database
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cluster, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: filepath.Join(dir, "postgres"), Durable: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop(pgcluster.Fast) })
	bus, err := natsd.Start(natsd.Config{Dir: filepath.Join(dir, "nats"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Stop)
	kek := filepath.Join(dir, "kek.json")
	if err := keyfile.Create(kek, clock.Clock{}); err != nil {
		t.Fatal(err)
	}
	start := func(owner string, role Role) (*Server, error) {
		return Start(t.Context(), Config{
			DatabaseURL: owner, DatabaseURLs: map[Role]string{role: cluster.URLAs(role.DatabaseRole())}, Roles: []Role{role}, Environment: "test",
			NATS:    func() (*nats.Conn, error) { return bus.Connect("test") },
			Profile: desired.Environment{TrustDomain: "gpuaas.test", Vendor: "v", Service: "s", Region: "r"},
			Listen:  "127.0.0.1:0", NodeListen: "127.0.0.1:0", RelayListen: "127.0.0.1:0", TerminalListen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0", NodeHosts: []string{"127.0.0.1"},
			Keys:     keystore.Config{Authority: keystore.DriverLocal, Signer: keystore.DriverLocal, KEK: keystore.DriverFile, KEKFile: kek},
			StateDir: t.TempDir(), AgentDir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		})
	}
	stop := func(s *Server) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if s, err := start("", RoleRelay); err == nil {
		stop(s)
		t.Fatal("a server without the login of the owner started on an empty database")
	}
	first, err := start(cluster.URL(), RoleRelay)
	if err != nil {
		t.Fatal(err)
	}
	stop(first)
	for _, role := range AllRoles() {
		s, err := start("", role)
		if err != nil {
			t.Errorf("%s: %v", role, err)
			continue
		}
		var want []string
		for _, u := range keystore.Uses() {
			if slices.Contains(u.Roles, string(role)) {
				want = append(want, u.Purpose)
			}
		}
		opened := s.keys.Opened()
		slices.Sort(opened)
		slices.Sort(want)
		if !slices.Equal(opened, want) {
			t.Errorf("%s has opened %v, want %v", role, opened, want)
		}
		signs(t, s, role)
		stop(s)
	}
}

// signs tries to use each key through the services of a role.
func signs(t *testing.T, s *Server, role Role) {
	t.Helper()
	v := s.services[role]
	if (s.tasks[role].Signer != nil) != (role == RoleWork) {
		t.Errorf("%s signs tasks", role)
	}
	if (v.Identity.Seal != nil) != (role == RoleAPI) || (v.Allocations.Signs != nil) != (role == RoleAPI) {
		t.Errorf("%s opens stored secrets, or signs logins", role)
	}
	if v.SignIn.Tokens != nil {
		_, err := v.SignIn.Tokens.Mint(signin.Claims{Audience: "a", Until: time.Now().Add(time.Minute)})
		if role != RoleAPI || err != nil {
			t.Errorf("%s signs tokens, %v", role, err)
		}
	}
	if _, local := s.keys.Roots.(*pki.Local); local != (role == RoleNode) {
		t.Errorf("%s has the certificate authority", role)
	}
	if len(s.keys.Roots.Bundle()) == 0 || len(s.keys.Public.LoginAuthorities()) == 0 {
		t.Errorf("%s does not know the public parts", role)
	}
	// No server signs a release. It has no key for it, and the store of releases accepts only what is signed.
	if _, ok := any(v.Releases).(agentrelease.Signer); ok || len(s.releaseKeys()) != 0 {
		t.Errorf("%s signs releases", role)
	}
	var files []string
	_ = filepath.WalkDir(s.cfg.StateDir, func(path string, d os.DirEntry, _ error) error {
		if strings.HasSuffix(path, ".pem") || strings.HasSuffix(path, ".key") {
			files = append(files, path)
		}
		return nil
	})
	if len(files) > 0 {
		t.Errorf("%s has key files: %v", role, files)
	}
}
