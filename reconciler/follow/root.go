package follow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/git"
	"github.com/gpuaas/gpuaas/desired/validate"
)

// Root is the source that the server was started with: a repository, or files
// that came with the binary where there is no checkout.
type Root struct {
	Name string
	Git  *git.Source
	// WorkTree also takes uncommitted files, for development.
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
func (r Root) tree(ctx context.Context, known string) (git.Tree, error) {
	if r.Git == nil {
		return builtinTree(r.Builtin, known), nil
	}
	if r.WorkTree {
		dirty, err := r.Git.Dirty(ctx)
		if err != nil {
			return git.Tree{}, err
		}
		if dirty {
			t, err := r.Git.WorkTree(ctx)
			t.Unchanged = err == nil && t.TreeHash == known
			return t, err
		}
	}
	return whole(ctx, r.Git, known)
}

// whole reads all files of a tree that is not the known one: they are validated
// together, so that a name is unique and a reference leads somewhere.
func whole(ctx context.Context, repo *git.Source, known string) (git.Tree, error) {
	t, err := repo.Snapshot(ctx, known)
	if err != nil || t.Base == "" {
		return t, err
	}
	return repo.Snapshot(ctx, "")
}

func builtinTree(files map[string][]byte, known string) git.Tree {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %d\n", name, len(files[name]))
		sum.Write(files[name])
	}
	hash := hex.EncodeToString(sum.Sum(nil))
	return git.Tree{Commit: Builtin, TreeHash: hash, Files: files, Unchanged: hash == known}
}

// Read validates what the source declares, whether or not it is applied: a server
// needs its profile before it can start.
func (r Root) Read(ctx context.Context) (git.Tree, []desired.Object, []desired.Finding, error) {
	t, err := r.tree(ctx, "")
	if err != nil || len(t.Findings) > 0 {
		return t, nil, t.Findings, err
	}
	objects, findings, err := evaluate(ctx, r.spec(), t)
	return t, objects, findings, err
}

func evaluate(ctx context.Context, spec desired.GitSource, t git.Tree) ([]desired.Object, []desired.Finding, error) {
	result, err := validate.Run(ctx, t.Files)
	if err != nil {
		return nil, nil, fmt.Errorf("validating %s: %w", spec.Name, err)
	}
	for i := range result.Objects {
		o := &result.Objects[i].Source
		o.Owner, o.Name, o.Repository, o.Commit = desired.OwnerGit, spec.Name, spec.Repository, t.Commit
	}
	return result.Objects, result.Findings, nil
}
