package arch

import (
	"errors"
	"go/build"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	modpath "golang.org/x/mod/module"
)

// node is the program that runs as root on every node of the fleet.
const node = module + "/cmd/gpuaas-agent"

// TestNodeBinaryLinksNoServer follows the imports of the node binary through
// the module cache, down to the standard library.
func TestNodeBinaryLinksNoServer(t *testing.T) {
	t.Parallel()
	g := newGraph(t)
	g.walk(node, nil)
	if len(g.chains) < 5 {
		t.Fatalf("only %d packages below %s: this test reads the wrong files", len(g.chains), node)
	}
	for name, chain := range g.chains {
		// database/sql/driver is only the types that google/uuid scans into.
		if name == "database/sql" || underAny(name, unlinked) {
			t.Errorf("%s is linked: %s", name, strings.Join(append(chain, name), " → "))
		}
	}
}

// The search itself is proved on a package that does link a database.
func TestTheGraphReachesLibraries(t *testing.T) {
	t.Parallel()
	g := newGraph(t)
	g.walk(module+"/internal/pgtest", nil)
	for _, want := range []string{"github.com/jackc/pgx/v5", module + "/migrations", "database/sql", "github.com/riverqueue/river/rivermigrate"} {
		if g.chains[want] == nil {
			t.Errorf("%s is linked by internal/pgtest but was not found", want)
		}
	}
}

// graph finds what a package links. It resolves import paths like the go
// command does, from go.mod, which lists every module that a build may use.
type graph struct {
	t       *testing.T
	context build.Context
	folders map[string]string // module path → its folder
	chains  map[string][]string
}

func newGraph(t *testing.T) *graph {
	t.Helper()
	g := &graph{t: t, context: build.Default, folders: map[string]string{module: root}, chains: map[string][]string{}}
	g.context.CgoEnabled = false // like the release
	g.context.BuildTags = []string{"nomsgpack"}
	mod, err := modfile.Parse("go.mod", []byte(read(t, "go.mod")), nil)
	if err != nil {
		t.Fatal(err)
	}
	cache := os.Getenv("GOMODCACHE")
	if cache == "" {
		cache = filepath.Join(filepath.SplitList(g.context.GOPATH)[0], "pkg", "mod")
	}
	for _, require := range mod.Require {
		path, err := modpath.EscapePath(require.Mod.Path)
		if err != nil {
			t.Fatal(err)
		}
		g.folders[require.Mod.Path] = filepath.Join(cache, path+"@"+require.Mod.Version)
	}
	return g
}

func (g *graph) walk(name string, chain []string) {
	if g.chains[name] != nil || name == "C" || name == "unsafe" {
		return
	}
	g.chains[name] = append([]string{}, chain...)
	folder, ok := g.folderOf(name)
	if !ok {
		return // the standard library links only itself
	}
	pkg, err := g.context.ImportDir(folder, 0)
	if none := (*build.NoGoError)(nil); errors.As(err, &none) {
		g.t.Errorf("%s: no Go files in %s", name, folder)
		return
	} else if err != nil {
		g.t.Fatalf("%s: %v", name, err)
	}
	for _, imported := range pkg.Imports {
		g.walk(imported, append(slices.Clip(chain), name))
	}
}

// folderOf finds a package by the longest module path that contains it.
func (g *graph) folderOf(name string) (string, bool) {
	best := ""
	for path, folder := range g.folders {
		if !under(name, path) || len(path) <= len(best) {
			continue
		}
		if st, err := os.Stat(filepath.Join(folder, strings.TrimPrefix(name, path))); err == nil && st.IsDir() {
			best = path
		}
	}
	if best == "" {
		if first, _, _ := strings.Cut(name, "/"); strings.Contains(first, ".") {
			g.t.Fatalf("%s is in no module of go.mod, or the module cache lacks it", name)
		}
		return "", false
	}
	return filepath.Join(g.folders[best], strings.TrimPrefix(name, best)), true
}
