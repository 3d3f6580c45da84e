package services_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/services"
)

func configOf(t *testing.T) services.Config {
	t.Helper()
	db, hints, log := pgtest.Scoped(t, pgtest.Clone(t)), &hint.Bus{}, slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	users, err := secret.OpenUserCA(filepath.Join(dir, "logins"), clock.Clock{})
	must(t, err)
	ring, err := pki.OpenKeyring(filepath.Join(dir, "tokens"))
	must(t, err)
	return services.Config{
		DB: db, Policies: &policies.Client{DB: db, Hints: hints, Log: log}, Hints: hints, Naming: ids.DefaultNaming, Log: log,
		Keys:           &services.Keys{Tokens: &signin.Tokens{Issuer: "test", Audience: "test", Keys: ring}, Seal: identitytest.Seal(t), Users: users},
		ReleaseKeys:    func() map[string][]byte { return nil },
		PaymentMetrics: payment.NewMetrics(), PublicURL: func() string { return "https://gpuaas.example" },
	}
}

// TestNew builds all services without the optional parts.
func TestNew(t *testing.T) {
	t.Parallel()
	s, err := services.New(configOf(t))
	must(t, err)
	if s.Payments.Provider != nil || s.SignIn.Provider != nil {
		t.Error("the providers are optional, and one was made up")
	}
	if _, err := s.Catalog.List(t.Context(), "", 1); err != nil {
		t.Error(err)
	}
}

// TestNewRejectsMissingParts: a missing part is an error at start that names it.
func TestNewRejectsMissingParts(t *testing.T) {
	t.Parallel()
	whole := configOf(t)
	for name, remove := range map[string]func(*services.Config){
		"DB":             func(c *services.Config) { c.DB = nil },
		"Policies":       func(c *services.Config) { c.Policies = nil },
		"Hints":          func(c *services.Config) { c.Hints = nil },
		"Log":            func(c *services.Config) { c.Log = nil },
		"ReleaseKeys":    func(c *services.Config) { c.ReleaseKeys = nil },
		"PaymentMetrics": func(c *services.Config) { c.PaymentMetrics = nil },
		"PublicURL":      func(c *services.Config) { c.PublicURL = nil },
	} {
		c := whole
		remove(&c)
		if _, err := services.New(c); err == nil || !strings.Contains(err.Error(), "Config."+name+" is missing") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// A role without keys has services that sign and decrypt nothing, and one with half of the keys of the API
// does not start.
func TestAnotherRoleHasNoKeys(t *testing.T) {
	t.Parallel()
	whole := configOf(t)
	half := whole
	half.Keys = &services.Keys{Tokens: whole.Keys.Tokens, Seal: whole.Keys.Seal}
	if _, err := services.New(half); err == nil || !strings.Contains(err.Error(), "Keys.Users is missing") {
		t.Errorf("without the login keys: %v", err)
	}
	whole.Keys = nil
	s, err := services.New(whole)
	must(t, err)
	if s.Identity.Seal != nil || s.SignIn.Tokens != nil || s.Allocations.Signs != nil {
		t.Error("a role without keys signs or decrypts")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
