package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/document"
	"github.com/gpuaas/gpuaas/gitops/source/pack"
)

// walker walks the trees of one commit together with those of an older one. It opens no blob before
// all trees are checked, and no folder that is unchanged.
type walker struct {
	ctx     context.Context //nolint:containedctx // of one read; the walk is recursive
	from    pack.Objects
	limits  Limits
	check   *treeCheck
	cache   *treeCache
	reads   *Reads
	blobs   []folder // to read
	removed []string
}

// baseError is a fault of the older tree, which is only compared. The caller then reads the new tree without it.
type baseError struct{ error }

// list reads one tree object. It counts the read and ends with the context, because a commit may have many trees.
func (w *walker) list(hash plumbing.Hash) ([]entry, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	w.reads.Trees++
	return readTree(w.from, hash, w.limits.tree())
}

// tree checks one folder. old is the hash of the folder at this path in the older commit, or zero.
func (w *walker) tree(at string, hash, old plumbing.Hash, depth int) error {
	if depth > deepest {
		w.check.reject(desired.CodeTooDeep, at, fmt.Sprintf("is nested more than %d deep", deepest), "a flatter layout")
		return nil
	}
	before := w.cache.checked[at]
	if hash == old && before.hash == hash {
		w.check.add(at, before, w.limits)
		return nil
	}
	entries, err := w.list(hash)
	if err != nil {
		return fmt.Errorf("reading tree %s: %w", hash, err)
	}
	was, err := w.entries(old)
	if err != nil {
		return err
	}
	files, size, faults := w.check.files, w.check.bytes, len(w.check.findings)
	// Names of the older commit were checked with it and need no second check.
	familiar := before.hash == old && !old.IsZero() && !fresh(entries, was)
	for _, e := range entries {
		full := below(at, e.name)
		if !w.check.count(full, w.limits) || w.check.full() {
			return nil
		}
		if !familiar && !w.check.name(full, e.name) {
			continue
		}
		if err := w.entry(full, e, was[e.name], depth); err != nil {
			return err
		}
		delete(was, e.name)
	}
	for _, e := range was {
		if err := w.lost(below(at, e.name), e, depth); err != nil {
			return err
		}
	}
	if len(w.check.findings) == faults {
		w.cache.checked[at] = checkedTree{hash, w.check.files - files, w.check.bytes - size}
	}
	return nil
}

// entries reads a folder of the older tree by name.
func (w *walker) entries(tree plumbing.Hash) (map[string]entry, error) {
	if tree.IsZero() {
		return nil, nil //nolint:nilnil // nothing stood there
	}
	list, err := w.list(tree)
	if err != nil {
		return nil, baseError{err}
	}
	by := make(map[string]entry, len(list))
	for _, e := range list {
		by[e.name] = e
	}
	return by, nil
}

// fresh reports whether a folder has a name that the older one did not have. A new name can collide with an old one, so
// then all names of the folder are checked again.
func fresh(entries []entry, was map[string]entry) bool {
	for _, e := range entries {
		if _, ok := was[e.name]; !ok {
			return true
		}
	}
	return false
}

// below joins a folder and a name for a finding. It does not clean a hostile name: the finding must contain the name as
// it is in the tree.
func below(at, name string) string {
	if at == "" {
		return name
	}
	if strings.Contains(name, "/") || name == ".." || name == "." {
		return at + "/" + name
	}
	return path.Join(at, name)
}

// entry compares an entry with the one of the same name in the older tree. A folder that became a file, or a file that
// became a folder, removes the files of the old one.
func (w *walker) entry(full string, e, was entry, depth int) error {
	if e.mode == filemode.Dir {
		old := plumbing.ZeroHash
		if was.mode == filemode.Dir {
			old = was.hash
		} else if err := w.lost(full, was, depth); err != nil {
			return err
		}
		return w.tree(full, e.hash, old, depth+1)
	}
	if was.mode == filemode.Dir {
		if err := w.lost(full, was, depth); err != nil {
			return err
		}
	}
	if !w.check.mode(full, e.mode) || !document.Readable(full) {
		return nil
	}
	size, err := w.size(e.hash)
	if err != nil {
		return fmt.Errorf("reading size of %s: %w", full, err)
	}
	w.check.file(full, size, w.limits)
	if e != was {
		w.blobs = append(w.blobs, folder{full, e.hash})
	}
	return nil
}

// size reads the size from the object's header without inflating it.
func (w *walker) size(blob plumbing.Hash) (int64, error) {
	if size, ok := w.cache.sizes[blob]; ok {
		return size, nil
	}
	size, err := w.from.EncodedObjectSize(blob)
	if err == nil {
		w.cache.sizes[blob] = size
	}
	return size, err
}

// lost records the removed files of an entry.
func (w *walker) lost(full string, e entry, depth int) error {
	switch {
	case e.mode == filemode.Dir:
		return w.isGone(full, e.hash, depth+1)
	case e.mode == filemode.Regular && document.Readable(full):
		w.removed = append(w.removed, full)
	}
	return nil
}

func (w *walker) isGone(at string, tree plumbing.Hash, depth int) error {
	entries, err := w.entries(tree)
	if err != nil || depth > deepest+1 {
		return err
	}
	for _, e := range entries {
		if err := w.lost(below(at, e.name), e, depth); err != nil {
			return err
		}
	}
	return nil
}

// pointer is the first line of a Git LFS pointer file.
var pointer = []byte("version https://git-lfs.github.com/spec/")

// contents reads the changed files. All names, modes and sizes were checked before, so the memory is bounded.
func (w *walker) contents() (map[string][]byte, error) {
	files := make(map[string][]byte, len(w.blobs))
	for _, b := range w.blobs {
		if err := w.ctx.Err(); err != nil {
			return nil, err
		}
		w.reads.Blobs++
		body, err := pack.ReadObject(w.from, plumbing.BlobObject, b.hash, w.limits.FileBytes)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", b.path, err)
		}
		if bytes.HasPrefix(body, pointer) {
			w.check.reject(desired.CodeLFSPointer, b.path, "is a pointer of Git LFS, not the file", "the file itself")
		}
		files[b.path] = body
	}
	return files, nil
}

// hashOf returns one hash over the folders of a source. A commit that changes only other folders has the same hash.
func hashOf(folders []folder) string {
	sum := sha256.New()
	for _, f := range folders {
		_, _ = fmt.Fprintf(sum, "%s\x00%s\n", f.path, f.hash)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
