package mount

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// Limits of a search for files that were not uploaded. The tenant owns the cache and may have put anything there.
const (
	mostEntries = 200_000
	deepest     = 100
	longestMeta = 1 << 20
)

// NotStored counts the files in a cache of rclone below a folder that wait for their upload.
func NotStored(ctx context.Context, folder, cache string) (int, error) {
	return dirty(ctx, folder, cache)
}

// dirty counts the files in a cache of rclone that wait for their upload. rclone 1.60 has a file for each of them below
// vfsMeta. The folder root is the home: no link leads out of it, and what a mount covers in it root may not read.
func dirty(ctx context.Context, home, cache string) (count int, err error) {
	root, err := os.OpenRoot(home)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer func() { _ = root.Close() }()
	s := &search{root: root}
	err = s.folder(ctx, path.Join(cache, "vfsMeta"), 0)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return s.dirty, err
}

type search struct {
	root           *os.Root
	entries, dirty int
}

var errTooMany = errors.New("the cache has too many files")

func (s *search) folder(ctx context.Context, name string, depth int) error {
	if depth > deepest {
		return errTooMany
	}
	dir, err := s.open(name)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	for {
		const some = 256
		list, err := dir.ReadDir(some)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if s.entries += len(list); s.entries > mostEntries {
			return errTooMany
		}
		for _, e := range list {
			if err := s.entry(ctx, path.Join(name, e.Name()), e, depth); err != nil {
				return err
			}
		}
	}
}

func (s *search) entry(ctx context.Context, name string, e fs.DirEntry, depth int) (err error) {
	switch {
	case e.IsDir():
		err = s.folder(ctx, name, depth+1)
	case e.Type().IsRegular() && s.isDirty(name):
		s.dirty++
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // uploaded and removed meanwhile
	}
	return err
}

func (s *search) isDirty(name string) bool {
	f, err := s.open(name)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	var meta struct{ Dirty bool }
	return json.NewDecoder(io.LimitReader(f, longestMeta)).Decode(&meta) == nil && meta.Dirty
}

// open does not wait for the other end of a pipe.
func (s *search) open(name string) (*os.File, error) {
	return s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
}
