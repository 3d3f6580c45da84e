// Package source clones and fetches Git repositories within limits, verifies the signatures of commits,
// and reads the tree of one commit. A repository is hostile input: names, modes, sizes and depths are
// checked before any content is opened.
package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/source/signature"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// Source is one repository, with the folders that hold declarations.
type Source struct {
	Repository string   // as it was opened: a path or a URL
	Ref        string   // branch, tag, full commit hash, or HEAD
	Dirs       []string // "environments/dev"; slashes, no leading one
	Limits     Limits
	Verify     signature.Verify
	Clock      clock.Clock

	spec   Spec
	root   string // of the checkout; empty when there is none
	remote string // URL, when the repository is elsewhere
	dir    string // of the store; empty: one for each read

	turn    sync.Mutex // one read at a time
	kept    *store
	refused map[plumbing.Hash]string // commits that are too much to fetch
	seen    treeCache
	reads   Reads
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
// repository, or the URL of one elsewhere (https, ssh or file), which is then
// fetched anew for each read.
func Open(location, ref string, dirs ...string) (*Source, error) {
	s := &Source{Repository: location, Ref: ref, Dirs: dirs, Limits: DefaultLimits(), refused: map[plumbing.Hash]string{}}
	if s.Ref == "" {
		s.Ref = "HEAD"
	}
	if err := checkRef(s.Ref); err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if !filepath.IsLocal(filepath.FromSlash(dir)) {
			return nil, errs.Invalid("dirs", "%q is no folder within the repository", dir)
		}
	}
	if isURL(location) {
		if _, err := parse(location); err != nil {
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

// OpenStore opens a repository elsewhere, and keeps what it fetched in dir, which
// is the source's own: a bare store, thrown away and fetched again where it is
// torn or has outgrown the limits.
func OpenStore(dir string, spec Spec) (*Source, error) {
	location := spec.Location
	if !isURL(location) {
		if !filepath.IsAbs(location) {
			return nil, errs.Invalid("repository", "%q is neither an address nor an absolute path", location)
		}
		location = "file://" + filepath.ToSlash(location)
	}
	s, err := Open(location, spec.Ref, spec.Dirs...)
	if err != nil {
		return nil, err
	}
	if spec.Limits != (Limits{}) {
		s.Limits = spec.Limits
	}
	if err := spec.Verify.Keys(); err != nil {
		return nil, err
	}
	s.Repository, s.spec, s.Verify, s.dir = spec.Location, spec, spec.Verify, dir
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

// Snapshot reads the tree of the commit that Ref names now. Where its hash is
// the known one nothing else is read; where the known tree can still be told,
// only what differs from it. A tree that may not be read comes back with findings;
// an error means that the repository gave no answer, or half of one, and the last
// good tree stays.
func (s *Source) Snapshot(ctx context.Context, known string) (Tree, error) {
	return s.At(ctx, s.Ref, known)
}

// At reads as Snapshot does, at any ref of the repository: a branch, a tag, a full
// name such as refs/pull/7/head, or a full hash.
func (s *Source) At(ctx context.Context, ref, known string) (t Tree, err error) {
	if err := checkRef(ref); err != nil {
		return Tree{}, err
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.remote == "" {
		repo, err := s.open()
		if err != nil {
			return Tree{}, err
		}
		hash, err := resolve(repo, ref)
		if err != nil {
			return Tree{}, err
		}
		return s.read(ctx, repo.Storer, hash, known)
	}
	err = s.inStore(func(st *store) error {
		t, err = s.fetchAndRead(ctx, st, ref, known)
		return err
	})
	return t, err
}

// inStore lends the store, which is another one each time where none is kept.
func (s *Source) inStore(do func(*store) error) error {
	st := s.kept
	if st == nil {
		st = &store{dir: s.dir}
	}
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "gpuaas-git-")
		if err != nil {
			return fmt.Errorf("making a folder for the fetch: %w", err)
		}
		st.dir = dir
		defer os.RemoveAll(dir) //nolint:errcheck // what is left of it is found by whoever clears temporary files
		defer st.packs.Close()
	} else {
		s.kept = st
	}
	if err := st.open(); err != nil {
		return err
	}
	defer st.release()
	return do(st)
}

// fetchAndRead begins anew, once, where the store turns out to be torn.
func (s *Source) fetchAndRead(ctx context.Context, st *store, ref, known string) (Tree, error) {
	old := len(st.packs.List) > 0
	t, err := s.fetchAndReadOnce(ctx, st, ref, known)
	if err == nil || !old || errs.CodeOf(err) != errs.Unavailable || !errors.As(err, new(*tornError)) {
		return t, err
	}
	if err := st.clear(); err != nil {
		return Tree{}, err
	}
	s.seen = treeCache{}
	return s.fetchAndReadOnce(ctx, st, ref, known)
}

func (s *Source) fetchAndReadOnce(ctx context.Context, st *store, ref, known string) (Tree, error) {
	hash, err := s.fetch(ctx, st, ref)
	if much, ok := errors.AsType[tooMuchError](err); ok {
		f := finding(desired.CodeRepositoryTooLarge, redacted(s.remote), much.What, "a repository of declarations, without what else is large")
		return Tree{Commit: much.commit.String(), TreeHash: invalidHash(much.commit.String(), []desired.Finding{f}), Findings: []desired.Finding{f}}, nil
	}
	if err != nil {
		return Tree{}, err
	}
	if old, ok := st.tree(known); ok {
		s.seen.add(old)
	}
	t, err := s.read(ctx, &st.packs, hash, known)
	if err != nil || len(t.Findings) > 0 {
		return t, err
	}
	return t, st.remember(s.seen.trees[t.TreeHash])
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

// tornError marks a commit of which something is missing.
type tornError struct{ err error }

func (e *tornError) Error() string { return e.err.Error() }

// torn is a commit of which something is missing: a push or fetch in progress,
// or a broken disk. Waiting may heal it, so it is no fault of the author's.
func torn(commit plumbing.Hash, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errs.New(errs.Unavailable, "commit %s cannot be read whole", commit).Because(&tornError{err})
}
