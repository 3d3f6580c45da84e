//go:build e2e

package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTwoBuildsOfACommitAreEqual builds a version in two folders, with two homes. All files are equal but the statement of the
// builder, and the command line verifies them with the public key alone.
func TestTwoBuildsOfACommitAreEqual(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(folder string, env []string, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "a", "second")
	here, err := filepath.Abs("..")
	must(t, err)
	in(dir, nil, "git", "clone", "--quiet", here, first)
	key := writeKeys(t, dir)
	in(first, nil, "sh", "-c", `printf '\n## [0.0.1] - 2026-01-01\n\n- A test.\n' >>CHANGELOG.md
		cp api/openapi/openapi.yaml api/asyncapi/asyncapi.yaml "$0" && mv "$0/openapi.yaml" api/openapi/released/ && mv "$0/asyncapi.yaml" api/asyncapi/released/`, dir)
	in(first, nil, "git", "-c", "user.name=e2e", "-c", "user.email=e2e@localhost", "-c", "commit.gpgsign=false", "commit", "--quiet", "--all", "--message", "version 0.0.1")
	release := func(folder string, env ...string) (string, error) {
		cmd := exec.Command("go", "run", "-trimpath", "-tags", "nomsgpack", "./scripts/release", "-version", "v0.0.1", "-key", key, "-builder", folder, "-only", "linux_amd64", "-out", filepath.Join(folder, "out"))
		cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := release(first); err == nil || !strings.Contains(out, "git tag v0.0.1") {
		t.Errorf("without a tag: %v: %s", err, out)
	}
	in(first, nil, "git", "tag", "v0.0.1")
	in(dir, nil, "git", "clone", "--quiet", first, second)
	cache := strings.TrimSpace(in(dir, nil, "go", "env", "GOCACHE"))
	modules := strings.TrimSpace(in(dir, nil, "go", "env", "GOMODCACHE"))
	sums := map[string]string{}
	for _, folder := range []string{first, second} {
		env := []string{"HOME=" + folder + "-home", "USER=" + filepath.Base(folder), "GOCACHE=" + cache, "GOMODCACHE=" + modules}
		if out, err := release(folder, env...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		text, err := os.ReadFile(filepath.Join(folder, "out", "SHA256SUMS"))
		must(t, err)
		sums[folder] = string(text)
	}
	if sums[first] != sums[second] {
		t.Errorf("two builds differ:\n%s\n%s", sums[first], sums[second])
	}
	verify := func() (string, error) {
		out, err := exec.Command(filepath.Join(bins, "gpuaas"), "release", "verify", filepath.Join(first, "out"), "--version", "v0.0.1", "--key", key+".pub").CombinedOutput()
		return string(out), err
	}
	if out, err := verify(); err != nil || !strings.Contains(out, "v0.0.1 is verified: commit ") || !strings.Contains(out, "built by "+first) {
		t.Errorf("%v: %s", err, out)
	}
	must(t, os.WriteFile(filepath.Join(first, "out", "CHANGES.md"), []byte("changed\n"), 0o600))
	if out, err := verify(); err == nil || !strings.Contains(out, "CHANGES.md is not the file that SHA256SUMS lists") {
		t.Errorf("a changed file: %v: %s", err, out)
	}
}

// writeKeys writes a release key, and its public key in another file.
func writeKeys(t *testing.T, dir string) (path string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	path = filepath.Join(dir, "release.pem")
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	open, err := x509.MarshalPKIXPublicKey(public)
	must(t, err)
	must(t, os.WriteFile(path+".pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}), 0o600))
	return path
}
