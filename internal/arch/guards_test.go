package arch

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

var named = regexp.MustCompile(`\bTest\w+`)

// TestGuardsGuard finds guards that check nothing: a guard whose test was renamed runs no test and
// passes, and a guard that make does not call never runs. Each guard needs an explanation.
func TestGuardsGuard(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	for _, f := range sources(t) {
		for _, d := range f.syntax.Decls {
			if f.test {
				tests[declared(d)] = true
			}
		}
	}
	makefile, page := read(t, "Makefile"), read(t, "scripts/ci/README.md")
	guards := 0
	walk(t, func(script string) {
		if path.Dir(script) != "scripts/ci" || !strings.HasSuffix(script, ".sh") {
			return
		}
		guards++
		for _, name := range named.FindAllString(read(t, script), -1) {
			if !tests[name] {
				t.Errorf("%s runs %s, which no package has", script, name)
			}
		}
		if !strings.Contains(makefile, script) {
			t.Errorf("%s is not run by make", script)
		}
		if name := strings.TrimSuffix(path.Base(script), ".sh"); !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("%s is not in the table of scripts/ci/README.md", name)
		}
	})
	if guards < 5 {
		t.Errorf("only %d guards found: this test reads the wrong files", guards)
	}
}
