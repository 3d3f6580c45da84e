package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/gpuaas/gpuaas/desired/validate"
)

// walker goes through the trees of one commit. It opens no blob until all of
// them are judged.
type walker struct {
	ctx    context.Context //nolint:containedctx // of one read; the walk is recursive
	repo   *gogit.Repository
	limits Limits
	judge  *judge
	blobs  []folder // readable files
}

func (w *walker) tree(at string, hash plumbing.Hash, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if depth > deepest {
		w.judge.refuse(at, fmt.Sprintf("is nested more than %d deep", deepest), "a flatter layout")
		return nil
	}
	tree, err := object.GetTree(w.repo.Storer, hash)
	if err != nil {
		return fmt.Errorf("reading tree %s: %w", hash, err)
	}
	for _, e := range tree.Entries {
		full := path.Join(at, e.Name)
		if strings.Contains(e.Name, "/") || e.Name == ".." || e.Name == "." {
			full = at + "/" + e.Name // shown as it is, never cleaned away
		}
		if !w.judge.count(full, w.limits) || w.judge.full() {
			return nil
		}
		if !w.judge.name(full) {
			continue
		}
		if err := w.entry(full, e, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(full string, e object.TreeEntry, depth int) error {
	if e.Mode == filemode.Dir {
		return w.tree(full, e.Hash, depth+1)
	}
	if !w.judge.mode(full, e.Mode) || !validate.Readable(full) {
		return nil
	}
	// From the object's header: nothing is inflated.
	size, err := w.repo.Storer.EncodedObjectSize(e.Hash)
	if err != nil {
		return fmt.Errorf("reading size of %s: %w", full, err)
	}
	w.judge.file(full, size, w.limits)
	w.blobs = append(w.blobs, folder{full, e.Hash})
	return nil
}

func (w *walker) contents() (map[string][]byte, error) {
	files := make(map[string][]byte, len(w.blobs))
	for _, b := range w.blobs {
		if err := w.ctx.Err(); err != nil {
			return nil, err
		}
		body, err := w.blob(b.hash)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", b.path, err)
		}
		files[b.path] = body
	}
	return files, nil
}

func (w *walker) blob(hash plumbing.Hash) ([]byte, error) {
	blob, err := w.repo.BlobObject(hash)
	if err != nil {
		return nil, err
	}
	r, err := blob.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // read only
	// The header has promised a size; a pack that lies ends here.
	body, err := io.ReadAll(io.LimitReader(r, blob.Size+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) != blob.Size {
		return nil, fmt.Errorf("object %s has %d bytes and promises %d", hash, len(body), blob.Size)
	}
	return body, nil
}

// hashOf is one hash over the folders of a source.
func hashOf(folders []folder) string {
	sum := sha256.New()
	for _, f := range folders {
		_, _ = fmt.Fprintf(sum, "%s\x00%s\n", f.path, f.hash)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
