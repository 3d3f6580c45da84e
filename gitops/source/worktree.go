package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/document"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// WorkTree reads the files of the checkout, committed or not, under the same rules as a commit. If
// they equal the commit's, Commit is its hash. Otherwise Dirty is set, and Commit is "worktree".
func (s *Source) WorkTree(ctx context.Context) (Tree, error) {
	if s.root == "" {
		return Tree{}, errs.New(errs.NotFound, "%s has no checkout", s.Repository)
	}
	t, err := readFolder(ctx, s.root, s.Limits, s.Dirs...)
	if err != nil || len(t.Findings) > 0 {
		return t, err
	}
	committed, err := s.Snapshot(ctx, "")
	switch {
	case errs.CodeOf(err) == errs.NotFound:
		return t, nil // nothing is committed yet
	case err != nil:
		return Tree{}, err
	case maps.EqualFunc(committed.Files, t.Files, slices.Equal[[]byte]):
		return committed, nil
	}
	return t, nil
}

// Dirty reports whether the desired objects of the checkout differ from the commit's.
func (s *Source) Dirty(ctx context.Context) (bool, error) {
	if s.root == "" {
		return false, nil
	}
	t, err := s.WorkTree(ctx)
	return t.Dirty || len(t.Findings) > 0, err
}

// readFolder reads declarations from folders below root that need not be in
// any repository, under the same rules as a commit's.
func readFolder(ctx context.Context, root string, limits Limits, dirs ...string) (Tree, error) {
	// A root of its own: no name and no link leads out of it.
	top, err := os.OpenRoot(root)
	if err != nil {
		return Tree{}, fmt.Errorf("opening %s: %w", root, err)
	}
	defer top.Close() //nolint:errcheck // read only

	r := folderReader{ctx: ctx, top: top, limits: limits, check: newTreeCheck(), files: map[string][]byte{}}
	present := 0
	for _, dir := range dirs {
		name := path.Clean(filepath.ToSlash(dir))
		err := fs.WalkDir(top.FS(), name, r.visit)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Tree{}, fmt.Errorf("reading %s: %w", name, err)
		}
		present++
	}
	t := Tree{Commit: WorkTreeCommit, Dirty: true, Findings: r.check.findings}
	if present == 0 {
		t.Findings = append(t.Findings, finding(desired.CodeSourceEmpty, path.Join(dirs...), "SourceEmpty: there is no such folder", "a folder of declarations"))
	}
	if len(t.Findings) == 0 {
		t.Files, t.TreeHash = r.files, contentHash(r.files)
	} else {
		t.TreeHash = invalidHash("", t.Findings)
	}
	return t, nil
}

// ReadPath reads a folder or a file that the user names on the command line. Files have the path
// that the user has given.
func ReadPath(ctx context.Context, name string, limits Limits) (Tree, error) {
	root, only := name, ""
	if info, err := os.Stat(name); err != nil {
		return Tree{}, errs.New(errs.NotFound, "no file or folder at %s", name).Because(err)
	} else if !info.IsDir() {
		root, only = filepath.Split(name)
		root = filepath.Join(root, ".")
	}
	t, err := readFolder(ctx, root, limits, path.Join(".", filepath.ToSlash(only)))
	if err != nil {
		return Tree{}, err
	}
	known := func(inside string) string { return filepath.ToSlash(filepath.Join(root, filepath.FromSlash(inside))) }
	files := make(map[string][]byte, len(t.Files))
	for inside, body := range t.Files {
		files[known(inside)] = body
	}
	t.Files = files
	for i := range t.Findings {
		t.Findings[i].Path = known(t.Findings[i].Path)
	}
	return t, nil
}

// invalidHash returns a hash of the findings, and of the commit if a finding is about the commit. A
// caller uses it to recognise a tree that was rejected before.
func invalidHash(commit string, findings []desired.Finding) string {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, commit)
	for _, f := range findings {
		_, _ = fmt.Fprintln(sum, f)
	}
	return "refused-" + hex.EncodeToString(sum.Sum(nil))
}

type folderReader struct {
	ctx    context.Context //nolint:containedctx // of one read; WalkDir passes none
	top    *os.Root
	limits Limits
	check  *treeCheck
	files  map[string][]byte
}

func (r *folderReader) visit(name string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if err := r.ctx.Err(); err != nil {
		return err
	}
	base := path.Base(name)
	switch {
	case name == ".":
		return nil
	case d.IsDir() && base == ".git":
		return fs.SkipDir // of the checkout itself
	case !r.check.count(name, r.limits) || r.check.full():
		return fs.SkipAll
	case !r.check.name(name, base):
		return skip(d)
	case d.IsDir():
		return nil
	case !r.check.mode(name, modeOf(d)) || !document.Readable(name):
		return nil
	}
	return r.file(name)
}

func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// modeOf ignores the executable bit: file systems invent it.
func modeOf(d fs.DirEntry) filemode.FileMode {
	switch {
	case d.Type().IsRegular():
		return filemode.Regular
	case d.Type()&fs.ModeSymlink != 0:
		return filemode.Symlink
	}
	return filemode.Empty // a device, a pipe, a socket
}

func (r *folderReader) file(name string) error {
	f, err := r.top.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	// The size is that of the reading and not of stat: an editor may be writing the file.
	body, err := io.ReadAll(io.LimitReader(f, r.limits.FileBytes+1))
	if err != nil {
		return err
	}
	r.check.file(name, int64(len(body)), r.limits)
	r.files[name] = body
	return nil
}

func contentHash(files map[string][]byte) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_, _ = fmt.Fprintf(sum, "%s\x00%d\x00", name, len(files[name]))
		_, _ = sum.Write(files[name])
	}
	return "worktree-" + hex.EncodeToString(sum.Sum(nil))
}
