package reconciler

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func sorted(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return strings.TrimPrefix(strings.Join(lines, "\n")+"\n", "\n")
}

// Each scenario contains the rows before a pass and its results: the plan with its reasons, the
// jobs, the due set, and drift. A second pass must do nothing more (INV-16).
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			events, _, _ := strings.Cut(string(text), "-- plan --\n")
			_, rows, _ := strings.Cut(events, "-- rows --\n")
			s := newScene(t, pgtest.Tx(t)) // now() is constant within one transaction
			for line := range strings.Lines(rows) {
				s.line(line)
			}
			s.pass()
			got := events + "-- plan --\n" + s.plan() + "-- jobs --\n" + s.jobs() + "-- due --\n" + s.remains() + "-- drift --\n" + s.drifts() + "-- facts --\n" + s.rows()
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("run with -update and read the difference:\n%s", diff)
			}
			rest := pgtest.Diff(t, s.db, pgtest.Also("river.river_job"))
			for range 3 {
				if n := s.pass(); n != 0 || rest() != "" {
					t.Errorf("a second pass took %d\n%s", n, rest())
				}
			}
		})
	}
}
