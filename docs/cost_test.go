package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// costs are the checklists of CONTRIBUTING.md as they are in the code: the hand-written production files that an
// existing example of each change touches. Tests, generated files and documents are not counted.
var costs = []struct {
	change string
	// mentions matches the example wherever code or a definition names it.
	mentions string
	most     int
	files    []string
}{
	{
		change: "a field of a kind: serials of Node", most: 4,
		mentions: `\bSerials\b|\bserials[?!]?: [\[{]`,
		files: []string{
			"api/openapi/openapi.yaml",   // only a field that the request to create a node has
			"cli/fleet/nodeadd.go",       // only a field that has a flag
			"cue/schema/node.cue",        // the definition
			"reconciler/plan/machine.go", // the use
		},
	},
	{
		change: "a periodic job: seal_ledger", most: 3,
		mentions: `\b[sS]ealLedger\b`,
		files: []string{
			"jobs/schedule.go",
			"jobs/seal_ledger.go", // the arguments and the worker
			"jobs/workers.go",
		},
	},
	{
		change: "a policy key: login.max_tasks", most: 2,
		mentions: `\bLoginMaxTasks\b|"login\.max_tasks"`,
		files: []string{
			"jobs/jobs.go", // the use
			"policies/keys.cue",
		},
	},
	{
		change: "a CLI command: wait", most: 2,
		mentions: `\bNewWait\b`,
		files: []string{
			"cli/inspect/wait.go",
			"cli/root.go", // only a command at the top level
		},
	},
}

// TestCostOfAChange fails when an example of a checklist touches other files than its checklist lists. More files mean
// that an author has to edit a second place by hand. Fewer mean that the checklist and the limit can be lowered.
func TestCostOfAChange(t *testing.T) {
	t.Parallel()
	for _, c := range costs {
		t.Run(c.change, func(t *testing.T) {
			t.Parallel()
			if len(c.files) > c.most {
				t.Errorf("%d files, and at most %d are allowed", len(c.files), c.most)
			}
			found := mentioning(t, regexp.MustCompile(c.mentions))
			if diff := cmp.Diff(c.files, found); diff != "" {
				t.Errorf("the files differ (-checklist +code):\n%s", diff)
			}
		})
	}
}

// mentioning returns the hand-written production files that match, sorted.
func mentioning(t *testing.T, mentions *regexp.Regexp) (found []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"testdata", "e2e", "dev", "tools", "bin", ".git"}, d.Name()):
			return fs.SkipDir // no production code
		case d.IsDir(), !slices.Contains([]string{".go", ".cue", ".yaml", ".sql"}, filepath.Ext(path)),
			strings.HasSuffix(path, "_test.go"), strings.HasSuffix(path, ".gen.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && mentions.Match(text) {
			found = append(found, filepath.ToSlash(strings.TrimPrefix(path, "../")))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
