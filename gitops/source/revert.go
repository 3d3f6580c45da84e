package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// RevertTo creates a commit on a new branch on top of the checkout's HEAD. The given folders have
// their content of an older commit, all other files that of HEAD. RevertTo changes neither the work
// tree nor the index nor another branch, so uncommitted work in the checkout is safe. The commit is
// not signed.
func RevertTo(ctx context.Context, checkout, to string, dirs []string, branch, message string, author Author) (Rollback, error) {
	name := plumbing.NewBranchReferenceName(branch)
	if err := name.Validate(); err != nil {
		return Rollback{}, errs.Invalid("branch", "%q is no name for a branch", branch).Because(err)
	}
	s, err := Open(checkout, "HEAD", dirs...)
	if err != nil {
		return Rollback{}, err
	}
	if s.remote != "" {
		return Rollback{}, errs.Invalid("checkout", "%q is not a folder of the local machine", checkout)
	}
	repo, err := s.open()
	if err != nil {
		return Rollback{}, err
	}
	head, old, err := ends(repo, to)
	if err != nil {
		return Rollback{}, err
	}
	tree := head.TreeHash
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return Rollback{}, err
		}
		was, err := folderOf(repo, old, dir)
		if err != nil {
			return Rollback{}, err
		}
		if tree, err = grafted(repo, tree, strings.Split(dir, "/"), was); err != nil {
			return Rollback{}, err
		}
	}
	if tree == head.TreeHash {
		return Rollback{}, errs.New(errs.Conflict, "the folders are as they were at %s already", old.Hash)
	}
	return committed(repo, name, head, tree, message, author)
}

func ends(repo *gogit.Repository, to string) (head, old *object.Commit, err error) {
	for ref, into := range map[string]**object.Commit{"HEAD": &head, to: &old} {
		hash, err := resolve(repo, ref)
		if err != nil {
			return nil, nil, err
		}
		if *into, err = repo.CommitObject(hash); err != nil {
			return nil, nil, corruptError(hash, err)
		}
	}
	return head, old, nil
}

// folderOf returns the tree of a folder at a commit, or zero if the folder did not exist. The tree is opened here,
// because it may be missing in a partial clone, and the new commit would refer to a missing object.
func folderOf(repo *gogit.Repository, at *object.Commit, dir string) (plumbing.Hash, error) {
	root, err := at.Tree()
	if err != nil {
		return plumbing.ZeroHash, corruptError(at.Hash, err)
	}
	entry, err := root.FindEntry(dir)
	switch {
	case errors.Is(err, object.ErrEntryNotFound), errors.Is(err, object.ErrDirectoryNotFound):
		return plumbing.ZeroHash, nil
	case err != nil:
		return plumbing.ZeroHash, corruptError(at.Hash, err)
	case entry.Mode != filemode.Dir:
		return plumbing.ZeroHash, errs.New(errs.Conflict, "%s was no folder at %s", dir, at.Hash)
	}
	if _, err := object.GetTree(repo.Storer, entry.Hash); err != nil {
		return plumbing.ZeroHash, corruptError(at.Hash, err)
	}
	return entry.Hash, nil
}

// grafted returns a tree with one folder replaced, or removed if folder is zero.
func grafted(repo *gogit.Repository, tree plumbing.Hash, at []string, folder plumbing.Hash) (plumbing.Hash, error) {
	entries := []object.TreeEntry{}
	if !tree.IsZero() {
		t, err := object.GetTree(repo.Storer, tree)
		if err != nil {
			return plumbing.ZeroHash, fmt.Errorf("reading tree %s: %w", tree, err)
		}
		entries = slices.Clone(t.Entries)
	}
	i := slices.IndexFunc(entries, func(e object.TreeEntry) bool { return e.Name == at[0] })
	if len(at) > 1 {
		below := plumbing.ZeroHash
		if i >= 0 && entries[i].Mode == filemode.Dir {
			below = entries[i].Hash
		}
		var err error
		if folder, err = grafted(repo, below, at[1:], folder); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	if i >= 0 {
		entries = slices.Delete(entries, i, i+1)
	}
	if !folder.IsZero() {
		entries = append(entries, object.TreeEntry{Name: at[0], Mode: filemode.Dir, Hash: folder})
	}
	return writeTree(repo, entries)
}

// writeTree stores entries sorted as Git sorts them: a folder's name ends with a slash. Git has no
// empty folders.
func writeTree(repo *gogit.Repository, entries []object.TreeEntry) (plumbing.Hash, error) {
	if len(entries) == 0 {
		return plumbing.ZeroHash, nil
	}
	key := func(e object.TreeEntry) []byte {
		if e.Mode == filemode.Dir {
			return []byte(e.Name + "/")
		}
		return []byte(e.Name)
	}
	slices.SortFunc(entries, func(a, b object.TreeEntry) int { return bytes.Compare(key(a), key(b)) })
	o := repo.Storer.NewEncodedObject()
	if err := (&object.Tree{Entries: entries}).Encode(o); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("encoding tree: %w", err)
	}
	hash, err := repo.Storer.SetEncodedObject(o)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("writing tree: %w", err)
	}
	return hash, nil
}

func committed(repo *gogit.Repository, branch plumbing.ReferenceName, head *object.Commit, tree plumbing.Hash, message string, author Author) (Rollback, error) {
	who := object.Signature{Name: author.Name, Email: author.Email, When: author.At}
	o := repo.Storer.NewEncodedObject()
	c := object.Commit{Author: who, Committer: who, Message: message, TreeHash: tree, ParentHashes: []plumbing.Hash{head.Hash}}
	if err := c.Encode(o); err != nil {
		return Rollback{}, fmt.Errorf("encoding commit: %w", err)
	}
	hash, err := repo.Storer.SetEncodedObject(o)
	if err != nil {
		return Rollback{}, fmt.Errorf("writing commit: %w", err)
	}
	// An existing branch is never moved, because it may contain work of the user.
	if _, err := repo.Reference(branch, false); err == nil {
		return Rollback{}, errs.New(errs.AlreadyExists, "the branch %s exists already", branch.Short()).Try("name another branch")
	}
	if err := repo.Storer.SetReference(plumbing.NewHashReference(branch, hash)); err != nil {
		return Rollback{}, fmt.Errorf("making branch: %w", err)
	}
	return Rollback{Branch: branch.Short(), Commit: hash.String(), Base: head.Hash.String(), Tree: tree.String()}, nil
}
