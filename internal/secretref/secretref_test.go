package secretref

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
)

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"token": "from-file\n", "empty": "\n", "large": strings.Repeat("x", largest+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	t.Setenv("TEAM_TOKEN", "from-env")
	t.Setenv("DATABASE_URL", "postgres://secret")

	for ref, want := range map[string]string{"env:TEAM_TOKEN": "from-env", "file:" + dir + "/token": "from-file", "credential:token": "from-file"} {
		have, err := Resolve(t.Context(), ref)
		if err != nil || string(have) != want {
			t.Errorf("%s is %q, %v", ref, have, err)
		}
	}
	for ref, code := range map[string]errs.Code{
		"env:NOT_SET": errs.NotFound, "credential:none": errs.NotFound, "file:/nowhere/at/all": errs.NotFound, "credential:empty": errs.NotFound,
		"file:" + dir: errs.SpecInvalid, "credential:large": errs.SpecInvalid, "credential:../token": errs.SpecInvalid,
		"env:DATABASE_URL": errs.Forbidden, "env:STRIPE_SECRET_KEY": errs.Forbidden,
		"hunter2": errs.SpecInvalid, "": errs.SpecInvalid, "vault:kv/x": errs.SpecInvalid, "file:relative": errs.SpecInvalid,
	} {
		_, err := Resolve(t.Context(), ref)
		if errs.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", ref, err, code)
		}
	}
}

// The author may have written the secret in place of the reference.
func TestNoSecretInTheError(t *testing.T) {
	t.Parallel()
	_, err := Resolve(t.Context(), "ghp_hunter2")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %v", err)
	}
}
