//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// TestCopyBetweenAllocationAndProject copies files and folders from an allocation to a project and back, in names that a shell
// would interpret.
func TestCopyBetweenAllocationAndProject(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	h.start()
	a := h.create(t, "t4", 1)
	h.becomes(t, a, "active")
	in := func(command string) string {
		t.Helper()
		r := h.cli("ssh", a.Name, "--", command)
		if r.code != 0 {
			t.Fatalf("%s: %d %s", command, r.code, r.err)
		}
		return r.out
	}
	cp := func(code int, args ...string) string {
		t.Helper()
		r := h.cli(append([]string{"storage", "cp"}, args...)...)
		if r.code != code {
			t.Fatalf("cp %q: %d, want %d: %s", args, r.code, code, r.err)
		}
		return r.err
	}
	at := func(path string) string { return "alloc:" + a.Name + ":" + path }
	want := in(`mkdir -p "run's/a b" && head -c 41943040 /dev/urandom >"run's/big" && echo small >"run's/a b/\$(x)" && : >"run's/empty" && ln -s big "run's/link" && sha256sum <"run's/big"`)

	cp(0, at("run's/big"), ":models/")
	if sum := h.cli("storage", "ls", "models/big", "-o", "jsonpath={.items[0].sha256}").out; strings.TrimSpace(sum) != strings.Fields(want)[0] {
		t.Errorf("big has the SHA-256 %q in the project, want %s", sum, want)
	}
	if out := cp(0, "-r", at("run's"), ":tree"); !strings.Contains(out, "skipped run's/link: not a file") || !strings.Contains(out, "3 files") {
		t.Errorf("a folder: %s", out)
	}
	cp(0, "-r", ":tree", at("back"))
	if out := in(`cd back && sha256sum <big && cat "a b/\$(x)" && wc -c <empty && find . -name '*.part'`); out != want+"small\n0\n" {
		t.Errorf("the copy has %q", out)
	}
	cp(0, ":models/big", at("one"))
	cp(0, ":models/big", at("back/"))
	if out := in("sha256sum <one"); out != want {
		t.Errorf("one has %s", out)
	}
	for name, c := range map[string]struct {
		code int
		args []string
	}{
		"nothing there":         {5, []string{at("nothing"), ":x"}},
		"a folder without -r":   {2, []string{at("back"), ":x"}},
		"no project":            {2, []string{at("one"), h.path("local")}},
		"no allocation":         {5, []string{"alloc:no-such:one", ":x"}},
		"a path that is closed": {1, []string{":models/big", at("/proc/x")}},
	} {
		if err := cp(c.code, c.args...); !strings.Contains(err, "Error:") {
			t.Errorf("%s: %s", name, err)
		}
	}
}
