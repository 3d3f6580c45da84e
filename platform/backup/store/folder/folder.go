// Package folder stores backups in a folder of the file system.
package folder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup/store"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
	tmpDir   = "tmp"
)

// Store is a folder. No name leads out of it.
type Store struct {
	root  *os.Root
	fsync func(*os.File) error
}

var _ store.Store = (*Store)(nil)

// Open opens the folder, which must exist: a folder at the place of an unmounted disk would fill the disk of the system.
func Open(dir string) (*Store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, errs.Invalid("target", "the folder %s cannot be opened: %v", dir, err).Try("create the folder, or mount its disk")
	}
	return &Store{root: root, fsync: (*os.File).Sync}, nil
}

// Put writes a temporary file and links it to its name: a link fails where a rename would replace a file. Also a file that
// exists is durable after Put: a killed Put may have linked it and nothing more.
func (s *Store) Put(_ context.Context, name string, write func(io.Writer) error) error {
	if _, err := s.root.Lstat(name); err == nil {
		return cmp.Or(s.syncPath(name), store.ErrExists)
	}
	tmp := path.Join(tmpDir, uuid.NewString())
	if err := errors.Join(s.root.MkdirAll(tmpDir, dirMode), s.root.MkdirAll(path.Dir(name), dirMode)); err != nil {
		return full(err)
	}
	err := s.write(tmp, write)
	if err == nil {
		err = s.root.Link(tmp, name)
	}
	if errors.Is(err, fs.ErrExist) { // by another process
		err = cmp.Or(s.syncPath(name), store.ErrExists)
	}
	if removed := s.root.Remove(tmp); err == nil {
		err = removed
	}
	if err != nil {
		return full(fmt.Errorf("storing %s: %w", name, err))
	}
	return s.syncPath(name)
}

func (s *Store) write(tmp string, write func(io.Writer) error) error {
	f, err := s.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = s.fsync(f)
	}
	return errors.Join(err, f.Close())
}

// syncPath returns when a crash cannot lose a file, nor the folders that lead to it.
func (s *Store) syncPath(name string) error {
	for err := s.sync(name); ; err = s.sync(name) {
		if err != nil || name == "." || name == "/" {
			return err
		}
		name = path.Dir(name)
	}
}

func (s *Store) sync(name string) error {
	f, err := s.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(s.fsync(f), f.Close())
}

// Get opens a file.
func (s *Store) Get(_ context.Context, name string) (io.ReadCloser, error) {
	f, err := s.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, store.ErrNotFound
	}
	return f, err
}

// List walks the folder.
func (s *Store) List(_ context.Context, dir string) (entries []store.Entry, err error) {
	err = fs.WalkDir(s.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile, or never there
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			entries = append(entries, store.Entry{Name: name, Size: info.Size(), Modified: info.ModTime().UTC()})
		}
		return err
	})
	slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, err
}

// Delete removes a file, and the folder above it if that is empty.
func (s *Store) Delete(_ context.Context, name string) error {
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = s.root.Remove(path.Dir(name)) // fails for a folder with files
	return nil
}

// Clean removes temporary files.
func (s *Store) Clean(ctx context.Context, before time.Time) error {
	entries, err := s.List(ctx, tmpDir)
	for _, e := range entries {
		if e.Modified.Before(before) {
			err = errors.Join(err, s.root.Remove(e.Name))
		}
	}
	return err
}

func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}
