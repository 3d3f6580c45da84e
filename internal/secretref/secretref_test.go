package secretref

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// open lists credentials for git.example in a folder with the given files.
func open(t *testing.T, list string, files map[string]string) (*Credentials, string) {
	t.Helper()
	dir, state := t.TempDir(), t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := CredentialsFromEnv(env(map[string]string{listName: list, dirName: dir}), state)
	if err != nil {
		t.Fatal(err)
	}
	return c, dir
}

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestResolve(t *testing.T) {
	t.Parallel()
	c, dir := open(t, "token=git.example,git.example:8443 empty=git.example large=git.example pipe=git.example link=git.example folder=git.example none=git.example",
		map[string]string{"token": "secret\n", "empty": "\n", "large": strings.Repeat("x", largest+1), "unlisted": "x"})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(outside, []byte("task key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}

	for _, address := range []string{"https://git.example", "https://git.example:443/a/b", "ssh://git@GIT.example/a", "https://git.example:8443/x"} {
		have, err := c.Resolve(t.Context(), "credential:token", address)
		if err != nil || string(have) != "secret" {
			t.Errorf("%s: %q, %v", address, have, err)
		}
	}
	const good = "https://git.example"
	for rule, x := range map[string]struct {
		ref, address string
		code         errs.Code
	}{
		"another address":              {"credential:token", "https://attacker.example", errs.Forbidden},
		"another port":                 {"credential:token", "https://git.example:444", errs.Forbidden},
		"an address that begins alike": {"credential:token", "https://git.example.attacker.example", errs.Forbidden},
		"the address as a user":        {"credential:token", "https://git.example@attacker.example", errs.Forbidden},
		"no host name":                 {"credential:token", "file:///srv/git", errs.SpecInvalid},
		"a file that is not listed":    {"credential:unlisted", good, errs.NotFound},
		"a listed name, no file":       {"credential:none", good, errs.NotFound},
		"an empty file":                {"credential:empty", good, errs.NotFound},
		"a large file":                 {"credential:large", good, errs.SpecInvalid},
		"a pipe":                       {"credential:pipe", good, errs.SpecInvalid},
		"a folder":                     {"credential:folder", good, errs.SpecInvalid},
		"a link that leaves":           {"credential:link", good, errs.NotFound},
		"a path":                       {"credential:../token", good, errs.SpecInvalid},
		"a file":                       {"file:" + dir + "/token", good, errs.SpecInvalid},
		"a variable":                   {"env:DATABASE_URL", good, errs.SpecInvalid},
		"nothing":                      {"", good, errs.SpecInvalid},
	} {
		if have, err := c.Resolve(t.Context(), x.ref, x.address); errs.CodeOf(err) != x.code || have != nil {
			t.Errorf("%s: %q, %v; want %s", rule, have, err, x.code)
		}
	}
	if _, err := (*Credentials)(nil).Resolve(t.Context(), "credential:token", good); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("without a list: %v", err)
	}
}

func TestListsThatAreRejected(t *testing.T) {
	t.Parallel()
	dir, state := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(state, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(state, link); err != nil {
		t.Fatal(err)
	}
	for rule, x := range map[string]struct{ list, dir, field string }{
		"no host name":        {"token", dir, listName},
		"an empty address":    {"token=a,", dir, listName},
		"a path as name":      {"../token=a", dir, listName},
		"a name twice":        {"token=a token=b", dir, listName},
		"no folder":           {"token=a", "", dirName},
		"no such folder":      {"token=a", filepath.Join(dir, "none"), dirName},
		"the state directory": {"token=a", state, dirName},
		"below it":            {"token=a", filepath.Join(state, "inside"), dirName},
		"above it":            {"token=a", filepath.Dir(state), dirName},
		"a link to it":        {"token=a", link, dirName},
		"the kernel":          {"token=a", "/proc/self", dirName},
	} {
		_, err := CredentialsFromEnv(env(map[string]string{listName: x.list, dirName: x.dir}), state)
		if errs.CodeOf(err) != errs.ValidationError || !strings.Contains(err.Error(), x.field) {
			t.Errorf("%s: %v", rule, err)
		}
	}
	if c, err := CredentialsFromEnv(env(nil), state); c != nil || err != nil {
		t.Errorf("no list: %v, %v", c, err)
	}
}

// The author may have written the secret in place of the reference.
func TestNoSecretInTheError(t *testing.T) {
	t.Parallel()
	c, _ := open(t, "token=git.example", nil)
	_, err := c.Resolve(t.Context(), "ghp_hunter2", "https://git.example")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %v", err)
	}
}
