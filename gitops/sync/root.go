package sync

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/gitops/source"
)

// Root is the source that the server was started with: a repository, or files
// that came with the binary where there is no checkout.
type Root struct {
	Name string
	Git  *source.Source
	// WorkTree also reads uncommitted files, for development.
	WorkTree bool
	Builtin  map[string][]byte
}

// Builtin names the files inside the binary, as repository and as commit.
const Builtin = "builtin"

func (r Root) spec() desired.GitSource {
	if r.Git == nil {
		return desired.GitSource{Name: r.Name, Repository: Builtin, Ref: Builtin, Dirs: []string{}}
	}
	return desired.GitSource{Name: r.Name, Repository: r.Git.Repository, Ref: r.Git.Ref, Dirs: r.Git.Dirs}
}

// tree reads what the source declares now; Unchanged against a known hash.
func (r Root) tree(ctx context.Context, known string) (source.Tree, error) {
	if r.Git == nil {
		return builtinTree(r.Builtin, known), nil
	}
	if r.WorkTree {
		dirty, err := r.Git.Dirty(ctx)
		if err != nil {
			return source.Tree{}, err
		}
		if dirty {
			t, err := r.Git.WorkTree(ctx)
			t.Unchanged = err == nil && t.TreeHash == known
			return t, err
		}
	}
	return r.Git.Snapshot(ctx, known)
}

func builtinTree(files map[string][]byte, known string) source.Tree {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %d\n", name, len(files[name]))
		sum.Write(files[name])
	}
	hash := hex.EncodeToString(sum.Sum(nil))
	return source.Tree{Commit: Builtin, TreeHash: hash, Files: files, Unchanged: hash == known}
}

// Read validates what the source declares, whether or not it is applied: a server
// needs its profile before it can start.
func (r Root) Read(ctx context.Context) (source.Tree, []desired.Object, []desired.Finding, error) {
	t, err := r.tree(ctx, "")
	if err != nil || len(t.Findings) > 0 {
		return t, nil, t.Findings, err
	}
	result, err := validate.Run(ctx, t.Files)
	if err != nil {
		return t, nil, nil, fmt.Errorf("validating %s: %w", r.Name, err)
	}
	return t, owned(result.Objects, r.spec(), t.Commit), result.Findings, nil
}
