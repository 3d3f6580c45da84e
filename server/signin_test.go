package server_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaas/server"
)

func TestSignInFromEnv(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env    map[string]string
		want   server.SignIn
		failed bool
	}{
		"nothing":          {},
		"our name first":   {env: map[string]string{"GPUAAS_OIDC_ISSUER_URL": "a", "KEYCLOAK_ISSUER_URL": "b"}, want: server.SignIn{Issuer: "a"}},
		"its other name":   {env: map[string]string{"KEYCLOAK_ISSUER_URL": "b"}, want: server.SignIn{Issuer: "b"}},
		"a secret":         {env: map[string]string{"GPUAAS_OIDC_CLIENT_SECRET": "s", "GPUAAS_OIDC_CLIENT_SECRET_FILE": file}, want: server.SignIn{ClientSecret: "s"}},
		"a secret's file":  {env: map[string]string{"GPUAAS_OIDC_CLIENT_SECRET_FILE": file}, want: server.SignIn{ClientSecret: "from a file"}},
		"a file not there": {env: map[string]string{"GPUAAS_OIDC_CLIENT_SECRET_FILE": file + "x"}, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := server.SignInFromEnv(func(name string) string { return c.env[name] })
			if got != c.want || (err != nil) != c.failed {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
