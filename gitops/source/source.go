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

// Source is one repository with the folders of its desired objects.
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

	turn     sync.Mutex // one read at a time
	store    *store
	rejected map[plumbing.Hash]string // commits that are too much to fetch
	cache    treeCache
	reads    Reads
}

// Tree contains the files of the source at one commit.
type Tree struct {
	Commit    string // full hash, or "worktree"
	TreeHash  string // changes with anything under Dirs, and with nothing else
	Files     map[string][]byte
	Dirty     bool // uncommitted files, read from the checkout
	Unchanged bool // the tree is the known one, so no file was read
	// Meta is the commit's own description of itself; empty for a work tree.
	Meta Commit
	// Base is the hash of the tree against which Files are the changes. Files then contains only
	// new and changed files, and Changed and Removed are the paths. Base is empty if Files contains
	// all files.
	Base    string
	Changed []string
	Removed []string
	// Findings lists why the tree is invalid. Files is empty then.
	Findings []desired.Finding
}

// WorkTreeCommit is used as the commit of uncommitted files.
const WorkTreeCommit = "worktree"

// Open opens a repository: a folder in a checkout, a linked work tree, a bare repository, or a URL
// (https, ssh or file), which is then fetched again for each read.
func Open(location, ref string, dirs ...string) (*Source, error) {
	s := &Source{Repository: location, Ref: ref, Dirs: dirs, Limits: DefaultLimits(), rejected: map[plumbing.Hash]string{}}
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
	// A bare repository has no work tree.
	if checkout, err := repo.Worktree(); err == nil {
		s.root = checkout.Filesystem.Root()
	}
	return s, nil
}

// OpenStore opens a remote repository and stores what it fetches in dir, a bare repository that
// only this source uses. The store is deleted and fetched again if it is corrupt or exceeds the
// limits.
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

// open opens a local repository again for each read. An open go-git repository never sees the packs
// of a later gc or push and reports missing objects.
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

// isBare reports whether a path is a bare repository. go-git searches for .git in parent folders and would find another
// repository above a bare one.
func isBare(location string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(location, name)); err != nil {
			return false
		}
	}
	return true
}

// Snapshot reads the tree of the commit that Ref names now. If its hash equals the known one,
// nothing else is read. If the known tree is in the cache, only the difference is read. An invalid
// tree returns findings. An error means that the repository was unavailable or answered partially;
// the caller continues with the last good tree.
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

// inStore calls do with the store. A source without a permanent store gets a new temporary one each
// time.
func (s *Source) inStore(do func(*store) error) error {
	st := s.store
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
		s.store = st
	}
	if err := st.open(); err != nil {
		return err
	}
	defer st.release()
	return do(st)
}

// fetchAndRead deletes a corrupt store and fetches once more. Without this a damaged object would stop the source until
// an operator deletes the folder. A new store is not retried: then the repository itself is incomplete.
func (s *Source) fetchAndRead(ctx context.Context, st *store, ref, known string) (Tree, error) {
	old := len(st.packs.List) > 0
	t, err := s.fetchAndReadOnce(ctx, st, ref, known)
	if err == nil || !old || errs.CodeOf(err) != errs.Unavailable || !errors.As(err, new(*tornError)) {
		return t, err
	}
	if err := st.clear(); err != nil {
		return Tree{}, err
	}
	s.cache = treeCache{}
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
		s.cache.add(old)
	}
	t, err := s.read(ctx, &st.packs, hash, known)
	if err != nil || len(t.Findings) > 0 {
		return t, err
	}
	return t, st.cache(s.cache.trees[t.TreeHash])
}

// resolve finds the commit once. All later reads use its hash, so a push during the read cannot mix two commits.
func resolve(repo *gogit.Repository, ref string) (plumbing.Hash, error) {
	hash, err := repo.ResolveRevision(plumbing.Revision(ref))
	if err != nil {
		return plumbing.ZeroHash, errs.New(errs.NotFound, "the repository has no commit at %q", ref).Because(err)
	}
	return *hash, nil
}

// tornError marks a commit with a missing object.
type tornError struct{ err error }

func (e *tornError) Error() string { return e.err.Error() }

// corruptError is the error of a commit with a missing object: a push or fetch is in progress, or the disk is damaged.
// A later read may succeed, so it is not a finding for the author. A cancelled context is no evidence
// about the store.
func corruptError(commit plumbing.Hash, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errs.New(errs.Unavailable, "commit %s cannot be read whole", commit).Because(&tornError{err})
}
