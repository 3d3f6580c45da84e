package source

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/source/pack"
	"github.com/gpuaas/gpuaas/gitops/source/signature"
)

// Reads counts the opened objects. Tests prove with it that unchanged folders are not read.
type Reads struct{ Trees, Blobs int64 }

// Reads since the source was opened.
func (s *Source) Reads() Reads {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.reads
}

// treeCache stores what a source has read of earlier trees.
type treeCache struct {
	trees   map[string]tree
	checked map[string]checkedTree  // folders without a fault, by path
	sizes   map[plumbing.Hash]int64 // of blobs
}

type checkedTree struct {
	hash  plumbing.Hash
	files int
	bytes int64
}

// mostSizes are some tens of megabytes.
const mostSizes = 500_000

func (m *treeCache) add(t tree) {
	if m.trees == nil || len(m.trees) > mostTrees {
		m.trees = map[string]tree{}
	}
	m.trees[t.Hash] = t
}

func (m *treeCache) ready() {
	if m.checked == nil || len(m.checked) > mostSizes || len(m.sizes) > mostSizes {
		m.checked, m.sizes = map[string]checkedTree{}, map[plumbing.Hash]int64{}
	}
}

// read reads one commit: its signature first, then its folders, then their files. An unsigned commit is rejected before
// any of its content is opened.
func (s *Source) read(ctx context.Context, from pack.Objects, hash plumbing.Hash, known string) (Tree, error) {
	t := Tree{Commit: hash.String()}
	c, err := readCommit(from, hash)
	if err != nil {
		return invalidOrCorrupt(t, hash, err)
	}
	t.Meta = c.Commit
	signer, f := s.Verify.Check(signature.SignedCommit{Hash: c.Hash, Signature: c.signature, Signed: c.signed, CommitterEmail: c.committerEmail}, s.Clock.Now())
	if f != nil {
		return invalidTree(t, t.Commit, *f), nil
	}
	t.Meta.Signer = signer
	roots, findings, err := s.folders(from, c.tree)
	if err != nil {
		return invalidOrCorrupt(t, hash, err)
	}
	if len(findings) > 0 {
		return invalidTree(t, "", findings...), nil
	}
	t.TreeHash = hashOf(roots)
	if known != "" && t.TreeHash == known {
		t.Unchanged = true
		return t, nil
	}
	old, based := s.cache.trees[known]
	err = s.walk(ctx, from, &t, roots, old.Folders)
	// The previous tree was removed from the store. Read the whole tree instead of the difference.
	if based && isGone(err) {
		based = false
		err = s.walk(ctx, from, &t, roots, nil)
	}
	if err != nil {
		return invalidOrCorrupt(t, hash, err)
	}
	if based && len(t.Findings) == 0 {
		t.Base = known
	}
	return t, nil
}

// walk checks the folders and then reads the files that differ from the previous tree.
func (s *Source) walk(ctx context.Context, from pack.Objects, t *Tree, roots []folder, old map[string]string) error {
	s.cache.ready()
	w := &walker{ctx: ctx, from: from, limits: s.Limits, check: newTreeCheck(), cache: &s.cache, reads: &s.reads}
	for _, f := range roots {
		if err := w.tree(f.path, f.hash, plumbing.NewHash(old[f.path]), 0); err != nil {
			return err
		}
	}
	for path, hash := range old {
		if !slices.ContainsFunc(roots, func(f folder) bool { return f.path == path }) {
			if err := w.isGone(path, plumbing.NewHash(hash), 0); err != nil {
				return err
			}
		}
	}
	if t.Findings = w.check.findings; len(t.Findings) > 0 {
		return nil
	}
	files, err := w.contents()
	if err != nil {
		return err
	}
	if t.Findings = w.check.findings; len(t.Findings) > 0 {
		return nil
	}
	t.Files = files
	if old != nil {
		t.Changed, t.Removed = slices.Sorted(maps.Keys(files)), slices.Sorted(slices.Values(w.removed))
	}
	s.cache.add(treeOf(t.TreeHash, roots))
	return nil
}

func treeOf(hash string, roots []folder) tree {
	t := tree{Hash: hash, Folders: map[string]string{}}
	for _, f := range roots {
		t.Folders[f.path] = f.hash.String()
	}
	return t
}

// invalidOrCorrupt distinguishes an error of the author from a damaged store.
func invalidOrCorrupt(t Tree, hash plumbing.Hash, err error) (Tree, error) {
	if bad, ok := errors.AsType[malformedError](err); ok {
		return invalidTree(t, t.Commit, finding(desired.CodeMalformedObject, t.Commit, bad.Error(), "an object as Git writes it")), nil
	}
	if size, ok := errors.AsType[pack.TooLargeError](err); ok && size.Kind == plumbing.TreeObject {
		return invalidTree(t, t.Commit, finding(desired.CodeTooManyFiles, t.Commit, size.Error(), "smaller folders")), nil
	} else if ok {
		return invalidTree(t, t.Commit, finding(desired.CodeMalformedObject, t.Commit, size.Error(), "a smaller one")), nil
	}
	return Tree{}, corruptError(hash, err)
}

func invalidTree(t Tree, commit string, findings ...desired.Finding) Tree {
	t.Findings, t.Files = findings, nil
	t.TreeHash = invalidHash(commit, findings)
	return t
}

type folder struct {
	path string
	hash plumbing.Hash
}

// folders returns the trees of Dirs. A missing folder is skipped, but if all are missing there is a
// finding: a wrong folder name must not result in an empty fleet.
func (s *Source) folders(from pack.Objects, root plumbing.Hash) ([]folder, []desired.Finding, error) {
	var found []folder
	for _, dir := range s.Dirs {
		if dir == "." {
			dir = ""
		}
		e, ok, err := resolvePath(from, root, dir, s.Limits.tree())
		switch {
		case err != nil:
			return nil, nil, err
		case !ok:
			continue
		case e.mode != filemode.Dir:
			return nil, []desired.Finding{checkFolder(dir, e.mode)}, nil
		}
		found = append(found, folder{strings.Trim(dir, "/"), e.hash})
	}
	if len(found) == 0 {
		return nil, []desired.Finding{finding(desired.CodeSourceEmpty, strings.Join(s.Dirs, ", "), "SourceEmpty: the commit has no such folder", "a folder of declarations")}, nil
	}
	return found, nil, nil
}

func splitPath(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for part := range strings.SplitSeq(path, "/") {
			if part != "" && part != "." && !yield(part) {
				return
			}
		}
	}
}

// isGone reports whether the base tree is no longer stored.
func isGone(err error) bool {
	var base baseError
	return errors.As(err, &base)
}
