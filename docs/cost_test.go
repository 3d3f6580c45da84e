package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// costs has an example for each checklist of CONTRIBUTING.md that promises a number of files: an existing
// change, and the hand-written production files that it needed. A new place that must be edited for such a
// change also mentions the example, and the test fails. A section without an example promises nothing.
var costs = []struct {
	change  string // heading of the checklist, without its count
	example string // pattern of the names that only this change added
	files   []string
	callers []string // use the example, and are no part of such a change
}{
	{
		change:  "An agent task type",
		example: `\bGPUReset(Params)?\b|\bgpuReset\(|node\.gpu_reset`,
		files:   []string{"agent/task/gpu_reset.go", "agent/task/task.go", "protocol/tasks.go"},
		callers: []string{"api/openapi/openapi.yaml", "cli/fleet/service.go", "jobs/release_allocation.go"},
	},
	{
		change:  "A field of a kind", // serials of Node
		example: `\bSerials\b|\bserials[?!]?: [\[{]`,
		files:   []string{"cli/fleet/nodeadd.go", "cue/schema/node.cue", "reconciler/plan/node.go"},
	},
	{
		change:  "A REST operation", // with a command, without a statement of its own
		example: `\b[uU]ncordonNode\b|\bNodeUncordon\b|\bUncordon\(`,
		files:   []string{"api/openapi/openapi.yaml", "api/rest/fleet/nodes.go", "cli/fleet/node.go", "policies/roles.cue", "product/fleet/operations.go"},
	},
	{
		change:  "A job", // a periodic one
		example: `\b[sS]ealLedger\b`,
		files:   []string{"jobs/schedule.go", "jobs/seal_ledger.go", "jobs/workers.go"},
	},
	{
		change:  "A policy key",
		example: `\bAllocationReleaseAttempts\b|\ballocation\.release_attempts\b`,
		files:   []string{"policies/keys.cue", "reconciler/policy.go"},
	},
	{
		change:  "A CLI command", // at the top level
		example: `\bNewWait\b|\bgpuaas wait\b`,
		files:   []string{"cli/inspect/wait.go", "cli/root.go"},
	},
}

func TestCosts(t *testing.T) {
	t.Parallel()
	contributing := read(t, "CONTRIBUTING.md")
	for _, c := range costs {
		t.Run(c.change, func(t *testing.T) {
			t.Parallel()
			files, tests := mentions(t, regexp.MustCompile(c.example))
			files = slices.DeleteFunc(files, func(name string) bool { return slices.Contains(c.callers, name) })
			if !slices.Equal(files, c.files) {
				t.Errorf("the example is in\n\t%s\nexpected\n\t%s", strings.Join(files, "\n\t"), strings.Join(c.files, "\n\t"))
			}
			if len(tests) == 0 {
				t.Error("no test mentions the example")
			}
			heading := fmt.Sprintf("\n### %s: %d files and ", c.change, len(c.files))
			_, section, found := strings.Cut(contributing, heading)
			if !found {
				t.Fatalf("CONTRIBUTING.md has no heading %q", strings.TrimSpace(heading))
			}
			section, _, _ = strings.Cut(section, "\n### ")
			for _, file := range c.files {
				if !strings.Contains(section, "`"+file+"`") {
					t.Errorf("the checklist of CONTRIBUTING.md does not name %s", file)
				}
			}
		})
	}
}

// generatedPart begins the generated end of a file.
var generatedPart = regexp.MustCompile(`(?m)^ *# Code generated .* DO NOT EDIT\.$`)

// mentions lists the hand-written files that match, sorted: production files, and tests. The scripts of the commands are
// tests. A test writes the operations of web/screens.yaml from the code.
func mentions(t *testing.T, example *regexp.Regexp) (files, tests []string) {
	t.Helper()
	written := []string{".go", ".cue", ".sql", ".yaml", ".txtar"}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name()[0] == '_' || len(d.Name()) > 2 && d.Name()[0] == '.'):
			return filepath.SkipDir
		case d.IsDir() || !slices.Contains(written, filepath.Ext(path)) || strings.HasSuffix(path, ".gen.go") || d.Name() == "cost_test.go" || d.Name() == "screens.yaml",
			strings.Contains(path, "/testdata/") && filepath.Ext(path) != ".txtar":
			return nil
		}
		text, err := os.ReadFile(path)
		if at := generatedPart.FindIndex(text); at != nil {
			text = text[:at[0]]
		}
		if err != nil || !example.Match(text) {
			return err
		}
		name, err := filepath.Rel(root, path)
		if strings.HasSuffix(name, "_test.go") || filepath.Ext(name) == ".txtar" {
			tests = append(tests, filepath.ToSlash(name))
		} else {
			files = append(files, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, tests
}
