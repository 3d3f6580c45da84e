package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// RunInside compiles the tests of a package of this module and runs them on a container with
// GPUAAS_DISPOSABLE_HOST=1. Without that variable the tests skip, because they create and remove
// users. Their output goes to the log of this test.
func (h *Container) RunInside(t testing.TB, pkg string, flags ...string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "inside.test")
	compile := exec.CommandContext(t.Context(), "go", "test", "-tags", "nomsgpack failpoint", "-c", "-o", binary, pkg) //nolint:gosec // the compiler
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("compiling the tests of %s: %v\n%s", pkg, err, out)
	}
	name := "/run/rig/" + filepath.Base(pkg) + ".test"
	must(t, h.CopyIn(t.Context(), binary, name))
	if data := filepath.Join(moduleDir(t, pkg), "testdata"); exists(data) {
		must(t, h.copyTree(t.Context(), data, "/run/rig/testdata"))
	}
	// A separate unit has the environment of systemd, and a control group that daemon-reload does
	// not change.
	args := append([]string{
		"systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--working-directory=/run/rig",
		"--setenv=GPUAAS_DISPOSABLE_HOST=1", "--setenv=HOME=/root", name, "-test.v", "-test.timeout=4m",
	}, flags...)
	out, err := h.Exec(t.Context(), args...)
	t.Log(out)
	if err != nil {
		t.Errorf("the tests of %s failed on a container", pkg)
	} else if !strings.Contains(out, "--- PASS") {
		t.Errorf("no test of %s passed on a container", pkg)
	}
}

func moduleDir(t testing.TB, pkg string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", pkg).Output() //nolint:gosec // the compiler
	must(t, err)
	return strings.TrimSpace(string(out))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
