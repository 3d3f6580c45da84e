// Package durable replaces files atomically. After a crash of the process or a power cut, a file
// has either the old content or the new one.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces path with data: a temporary file in the same directory, fsync, rename, and fsync
// of the directory. After it returns nil, the content survives a power cut.
func Write(path string, data []byte, mode fs.FileMode) error {
	return Stream(path, mode, func(f io.Writer) error { _, err := f.Write(data); return err })
}

// Stream is Write for a file that does not fit into memory: write receives the temporary file.
func Stream(path string, mode fs.FileMode, write func(io.Writer) error) error {
	temp, err := stageWith(path, mode, write)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(fmt.Errorf("replacing %s: %w", path, err), os.Remove(temp))
	}
	return syncDir(filepath.Dir(path))
}

// Create is Write for a file that must not be there yet. Of several that create
// one path at once a single one wins; the others get fs.ErrExist.
func Create(path string, data []byte, mode fs.FileMode) error {
	temp, err := stage(path, data, mode)
	if err != nil {
		return err
	}
	// A link fails where a rename would overwrite the winner's file.
	err = os.Link(temp, path)
	if err := errors.Join(err, os.Remove(temp)); err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

func stage(path string, data []byte, mode fs.FileMode) (string, error) {
	return stageWith(path, mode, func(f io.Writer) error { _, err := f.Write(data); return err })
}

func stageWith(path string, mode fs.FileMode, write func(io.Writer) error) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", fmt.Errorf("staging %s: %w", path, err)
	}
	err = errors.Join(write(f), f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return "", errors.Join(fmt.Errorf("staging %s: %w", path, err), os.Remove(f.Name()))
	}
	return f.Name(), nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing %s: %w", dir, err)
	}
	return nil
}
