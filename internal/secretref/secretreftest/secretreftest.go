// Package secretreftest creates credentials for tests.
package secretreftest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/secretref"
)

// Credentials returns credentials with the given secrets by name. Each may be sent to the host name of
// the address.
func Credentials(t testing.TB, address string, secrets map[string]string) *secretref.Credentials {
	t.Helper()
	c, err := secretref.CredentialsFromEnv(Env(t, address, secrets), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Env returns the variables of a server with these credentials.
func Env(t testing.TB, address string, secrets map[string]string) func(name string) string {
	t.Helper()
	_, host, _ := strings.Cut(address, "://")
	host, _, _ = strings.Cut(host, "/")
	dir, list := t.TempDir(), ""
	for name, secret := range secrets {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		list += " " + name + "=" + host
	}
	return func(name string) string {
		return map[string]string{"GPUAAS_CREDENTIALS": list, "GPUAAS_CREDENTIALS_DIR": dir}[name]
	}
}
