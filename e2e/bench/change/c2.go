package change

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/cue"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

const (
	fullCheck   = 10_000
	checkedEach = 500 // objects of one file
)

// WholeCheck compares gpuaas validate with cue vet on the same files of nodes. Ours reads one more
// file, with the SKU of the nodes, and checks the rules between objects, which cue vet does not.
func WholeCheck(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(fullCheck, 20)
	dir := filepath.Join(l.Dir, "c2", "fleet")
	nodes, err := writeFleet(dir, n)
	if err != nil {
		return nil, err
	}
	peer, err := cueCommand(ctx, l)
	if err != nil {
		return []lab.Row{{ID: "C2", Path: "gpuaas validate / cue vet", Skipped: err.Error()}}, nil //nolint:nilerr // a missing peer skips the row
	}
	binary, err := l.Gpuaas(ctx)
	if err != nil {
		return nil, err
	}
	schemas, err := writeSchema(filepath.Join(l.Dir, "c2", "schema"))
	if err != nil {
		return nil, err
	}
	run := func(name string, args ...string) lab.Side {
		return func(ctx context.Context) (time.Duration, error) {
			if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil { //nolint:gosec // our own paths
				return 0, fmt.Errorf("%s: %w: %.300s", filepath.Base(name), err, out)
			}
			return 0, nil
		}
	}
	vet := append(append([]string{"vet", "-c", "-d", "#Node"}, schemas...), nodes...)
	p, err := l.Alternate(ctx, lab.LeastPairs, nothing, run(binary, "validate", dir), run(peer, vet...))
	if err != nil {
		return nil, err
	}
	r := p.Row("C2", "gpuaas validate / cue vet", n).AtMost(0.5)
	r.Note = fmt.Sprintf("%d nodes in %d YAML files", n, len(nodes))
	return []lab.Row{r}, nil
}

func writeFleet(dir string, n int) (nodes []string, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("making the fleet: %w", err)
	}
	for name, text := range fleetFiles(n) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // read by the binaries
			return nil, fmt.Errorf("writing the fleet: %w", err)
		}
		if strings.HasPrefix(name, "nodes-") {
			nodes = append(nodes, path)
		}
	}
	slices.Sort(nodes)
	return nodes, nil
}

// nodeText returns a node as a user writes it.
func nodeText(i int) string {
	return fmt.Sprintf("---\napiVersion: gpuaas/v1alpha1\nkind: Node\nmetadata:\n  name: gpu-%d\n  labels: {rack: r%d, row: a}\nspec:\n  sku: h100\n  region: eu-1\n  onboarding: manual\n  gpus: 8\n  slicing: whole_gpu\n  cordoned: false\n", i, i%100)
}

func writeSchema(dir string) (paths []string, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("making the schema: %w", err)
	}
	names, err := fs.Glob(cue.Schema, "schema/*.cue")
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	for _, name := range names {
		src, err := fs.ReadFile(cue.Schema, name)
		if err != nil {
			return nil, fmt.Errorf("reading the schema: %w", err)
		}
		path := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(path, src, 0o644); err != nil { //nolint:gosec // read by the peer
			return nil, fmt.Errorf("writing the schema: %w", err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// cueCommand builds the peer from its own module.
func cueCommand(ctx context.Context, l *lab.Lab) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	path := filepath.Join(l.Dir, "cue")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "cuelang.org/go/cmd/cue") //nolint:gosec // our own path
	cmd.Dir = filepath.Join(strings.TrimSpace(string(root)), "e2e", "bench", "cuevet")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the cue command cannot be built: %.200s", out)
	}
	return path, nil
}
