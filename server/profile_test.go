package server

import (
	"testing"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// Threat: a commit that waits for an approval takes effect with the next restart.
func TestAServerStartsWithTheAppliedProfile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ applied, want string }{
		"nothing is applied": {"", "https://commit.example"},
		"in production":      {`{"signIn":{"issuer":"https://applied.example"}}`, "https://applied.example"},
		"in development":     {`{"development":true,"signIn":{"issuer":"https://applied.example"}}`, "https://commit.example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Clone(t)
			if c.applied != "" {
				if _, err := db.Exec(t.Context(), `INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner)
					VALUES (gen_random_uuid(), 'Environment', 'production', $1, 'x', 'api')`, c.applied); err != nil {
					t.Fatal(err)
				}
			}
			cfg := Config{Profile: desired.Environment{Development: true, SignIn: desired.SignIn{Issuer: "https://commit.example"}}}
			if err := cfg.useApplied(t.Context(), db); err != nil || cfg.Profile.SignIn.Issuer != c.want {
				t.Errorf("issuer %q, %v, want %s", cfg.Profile.SignIn.Issuer, err, c.want)
			}
		})
	}
}
