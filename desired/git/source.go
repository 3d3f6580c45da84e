// Package git reads declarations out of a Git repository: the tree of one
// commit, or what lies uncommitted in a checkout of it. It owns no state and
// writes nothing.
//
// It refuses before it reads. Git itself accepts symlinks, submodules, a blob of
// a gigabyte in a pack of a megabyte, and names that no other system would take,
// so modes, names and sizes are judged from the trees alone, and only then are
// contents opened. It never makes a work tree.
package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// Source is one repository, with the folders that hold declarations.
type Source struct {
	Repository string   // as it was opened: a path or a URL
	Ref        string   // branch, tag, full commit hash, or HEAD
	Dirs       []string // "environments/dev"; slashes, no leading one
	Limits     Limits

	Verify Verify
	Clock  clock.Clock

	spec   Spec
	dir    string // of the bare store
	root   string // of the checkout; empty when there is none
	remote string // URL, when the repository is elsewhere
}

// Tree is what the source declares at one commit.
type Tree struct {
	Commit    string // full hash, or "worktree"
	TreeHash  string // changes with anything under Dirs, and with nothing else
	Files     map[string][]byte
	Dirty     bool // uncommitted files, read from the checkout
	Unchanged bool // the tree is the known one, so no file was read
	// Meta is the commit's own description of itself; empty for a work tree.
	Meta Commit
	// Base is the hash of the tree that Files are the changes against: they then
	// hold only what is new or differs, and Changed and Removed are the paths. Empty
	// where Files are all files.
	Base    string
	Changed []string
	Removed []string
	// Findings are why the tree was refused; Files are then empty.
	Findings []desired.Finding
}

// WorkTreeCommit stands for a commit where uncommitted files were read.
const WorkTreeCommit = "worktree"

// Open opens a repository: a folder in a checkout, a linked work tree, a bare
// repository, or the URL of one elsewhere (https or ssh).
func Open(location, ref string, dirs ...string) (*Source, error) {
	s := &Source{Repository: location, Ref: ref, Dirs: dirs, Limits: DefaultLimits()}
	if s.Ref == "" {
		s.Ref = "HEAD"
	}
	if strings.HasPrefix(s.Ref, "-") {
		return nil, errs.Invalid("ref", "%q is no ref", s.Ref)
	}
	for _, dir := range dirs {
		if !filepath.IsLocal(filepath.FromSlash(dir)) {
			return nil, errs.Invalid("dirs", "%q is no folder within the repository", dir)
		}
	}
	if isURL(location) {
		if err := allowed(location); err != nil {
			return nil, err
		}
		s.remote = location
		return s, nil
	}
	repo, err := s.open()
	if err != nil {
		return nil, err
	}
	// A bare repository has no files beside it.
	if checkout, err := repo.Worktree(); err == nil {
		s.root = checkout.Filesystem.Root()
	}
	return s, nil
}

// open opens a local repository. It is opened anew for each read: an open one
// never sees the packs that a later gc or push makes, and reports torn commits.
func (s *Source) open() (*gogit.Repository, error) {
	if _, err := os.Stat(s.Repository); err != nil {
		return nil, errs.New(errs.NotFound, "no repository at %s", s.Repository).Because(err)
	}
	repo, err := gogit.PlainOpenWithOptions(s.Repository, &gogit.PlainOpenOptions{DetectDotGit: !isBare(s.Repository), EnableDotGitCommonDir: true})
	if errors.Is(err, gogit.ErrRepositoryNotExists) {
		return nil, errs.New(errs.NotFound, "%s is not in a Git repository", s.Repository)
	}
	if err != nil {
		return nil, fmt.Errorf("opening repository %s: %w", s.Repository, err)
	}
	return repo, nil
}

// isBare: looking for .git upwards would walk past a bare repository.
func isBare(location string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(location, name)); err != nil {
			return false
		}
	}
	return true
}

// OpenStore opens a repository elsewhere, and keeps what it fetched in dir, which
// is the source's own: a bare store, thrown away and fetched again where it is
// torn or has outgrown the limits.
func OpenStore(dir string, spec Spec) (*Source, error) {
	s, err := Open(spec.Location, spec.Ref, spec.Dirs...)
	if err != nil {
		return nil, err
	}
	if spec.Limits != (Limits{}) {
		s.Limits = spec.Limits
	}
	s.spec, s.Verify, s.dir = spec, spec.Verify, dir
	return s, nil
}

// Snapshot reads the tree of the commit that Ref names now. Where its hash is
// the known one nothing else is read. A tree that may not be read comes back
// with findings; an error means that the repository gave no answer, or half of
// one, and the last good tree stays.
func (s *Source) Snapshot(ctx context.Context, known string) (Tree, error) {
	return s.At(ctx, s.Ref, known)
}

// At reads as Snapshot does, at any ref of the repository: a branch, a tag, a full
// name such as refs/pull/7/head, or a full hash.
func (s *Source) At(ctx context.Context, ref, known string) (Tree, error) {
	at := *s
	at.Ref = ref
	repo, done, err := at.repository(ctx)
	if err != nil {
		return Tree{}, err
	}
	defer done()
	hash, err := resolve(repo, ref)
	if err != nil {
		return Tree{}, err
	}
	return s.read(ctx, repo, hash, known)
}

func (s *Source) repository(ctx context.Context) (*gogit.Repository, func(), error) {
	if s.remote != "" {
		return s.fetch(ctx)
	}
	repo, err := s.open()
	return repo, func() {}, err
}

// resolve finds the commit once: everything after it reads that commit, however
// the ref moves meanwhile.
func resolve(repo *gogit.Repository, ref string) (plumbing.Hash, error) {
	hash, err := repo.ResolveRevision(plumbing.Revision(ref))
	if err != nil {
		return plumbing.ZeroHash, errs.New(errs.NotFound, "the repository has no commit at %q", ref).Because(err)
	}
	return *hash, nil
}

func (s *Source) read(ctx context.Context, repo *gogit.Repository, hash plumbing.Hash, known string) (Tree, error) {
	commit, err := repo.CommitObject(hash)
	if err != nil {
		return Tree{}, torn(hash, err)
	}
	root, err := commit.Tree()
	if err != nil {
		return Tree{}, torn(hash, err)
	}
	meta, err := readCommit(repo.Storer, hash)
	if err != nil {
		return Tree{}, torn(hash, err)
	}
	t := Tree{Commit: hash.String(), Meta: meta.Commit}
	roots, findings, err := s.folders(root)
	if err != nil {
		return Tree{}, torn(hash, err)
	}
	if t.Findings = findings; len(findings) > 0 {
		t.TreeHash = refusedHash(findings)
		return t, nil
	}
	t.TreeHash = hashOf(roots)
	if known != "" && t.TreeHash == known {
		t.Unchanged = true
		return t, nil
	}
	w := &walker{ctx: ctx, repo: repo, limits: s.Limits, judge: newJudge()}
	for _, f := range roots {
		if err := w.tree(f.path, f.hash, 0); err != nil {
			return Tree{}, torn(hash, err)
		}
	}
	if t.Findings = w.judge.findings; len(t.Findings) > 0 {
		return t, nil
	}
	if t.Files, err = w.contents(); err != nil {
		return Tree{}, torn(hash, err)
	}
	return t, nil
}

// torn is a commit of which something is missing: a push or fetch in progress,
// or a broken disk. Waiting may heal it, so it is no fault of the author's.
func torn(commit plumbing.Hash, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errs.New(errs.Unavailable, "commit %s cannot be read whole", commit).Because(err)
}

type folder struct {
	path string
	hash plumbing.Hash
}

// folders finds the trees of Dirs. One that is missing is left out, but all of
// them missing is a finding: a wrong folder must not look like an empty fleet.
func (s *Source) folders(root *object.Tree) ([]folder, []desired.Finding, error) {
	var found []folder
	for _, dir := range s.Dirs {
		if dir == "." || dir == "" {
			found = append(found, folder{"", root.Hash})
			continue
		}
		entry, err := root.FindEntry(dir)
		switch {
		case errors.Is(err, object.ErrEntryNotFound), errors.Is(err, object.ErrDirectoryNotFound):
			continue
		case err != nil:
			return nil, nil, err
		}
		if finding := judgeFolder(dir, entry.Mode); finding != nil {
			return nil, []desired.Finding{*finding}, nil
		}
		found = append(found, folder{dir, entry.Hash})
	}
	if len(found) == 0 {
		return nil, []desired.Finding{finding(strings.Join(s.Dirs, ", "), "SourceEmpty: the commit has no such folder", "a folder of declarations")}, nil
	}
	return found, nil, nil
}
