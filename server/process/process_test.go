package process_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaas/platform/support"
	"github.com/gpuaas/gpuaas/server/process"
)

// Each way by which a server receives a secret is in the list.
func TestSecretsOfTheEnvironment(t *testing.T) { //nolint:paralleltest // it sets the environment
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("of-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"GPUAAS_OIDC_CLIENT_SECRET": "client-secret", "GPUAAS_VAULT_TOKEN_FILE": file, "GPUAAS_GIT_SSH_KEY": "ssh-key", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=of-headers,x=second",
		"PGPASSWORD": "of-postgres", "NATS_URL": "nats://of-nats@nats:4222", "GPUAAS_DATABASE_URL_API": "postgres://api:of-a-login@db/x", "GPUAAS_PUBLIC_URL": "https://gpuaas.example.org",
	} {
		t.Setenv(name, value)
	}
	have := func(value string) bool {
		return slices.ContainsFunc(process.Secrets(), func(s support.Secret) bool { return s.Value == value })
	}
	for _, value := range []string{"client-secret", "of-a-file", "ssh-key", "of-headers", "second", "of-postgres", "of-nats", "of-a-login"} {
		if !have(value) {
			t.Errorf("%s is not searched for", value)
		}
	}
	if have("https://gpuaas.example.org") {
		t.Error("an address is no secret")
	}
}

func TestKeysOfAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kek.json")
	if err := os.WriteFile(path, []byte(`{"active":"k1","keys":{"k1":"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if all := process.KeyFile(path); len(all) != 1 || all[0].Value != "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=" {
		t.Errorf("%v", all)
	}
	if all := process.KeyFile(path + ".absent"); all != nil {
		t.Errorf("%v", all)
	}
}
