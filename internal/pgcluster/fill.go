package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Fill makes the data directory of a cluster from a backup: fill writes its content. The directory appears whole or not
// at all. Fill rejects a folder with content, and one that a process uses.
func Fill(ctx context.Context, dir string, fill func(data *os.Root) error) error {
	return place(ctx, dir, func(fresh string) (string, error) { return fresh, fillFolder(fresh, fill) })
}

// Build is Fill for a data directory that a server changes before it is complete: build makes and stops a cluster in the
// folder stage. If the process is killed, its data directory never appears in dir.
func Build(ctx context.Context, dir string, build func(stage string) error) error {
	return place(ctx, dir, func(fresh string) (string, error) { return filepath.Join(fresh, "data"), build(fresh) })
}

// place renames the folder that build returns to the data directory, and removes what else build has made.
func place(ctx context.Context, dir string, build func(fresh string) (string, error)) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("naming the cluster's directory: %w", err)
	}
	if err := checkEmpty(dir); err != nil { // before the lock adds a file to it
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // data/ inside is 0700
		return fmt.Errorf("making the cluster's directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock(lock)) }()
	data, fresh := filepath.Join(dir, "data"), filepath.Join(dir, "data.new")
	if err := checkEmpty(dir); err != nil {
		return err
	}
	// A killed Build may have left a server.
	if err := sweep(ctx, filepath.Join(fresh, "data"), socketFolder(fresh)); err != nil {
		return fmt.Errorf("ending an orphaned PostgreSQL: %w", err)
	}
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("removing an unfinished data directory: %w", err)
	}
	made, err := build(fresh)
	if err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	if err := os.Rename(made, data); err != nil {
		return fmt.Errorf("placing the data directory: %w", err)
	}
	return errors.Join(syncFolder(dir), os.RemoveAll(fresh))
}

// checkEmpty accepts a folder that does not exist, and what an interrupted Fill or Build has left.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the cluster's directory: %w", err)
	}
	for _, e := range entries {
		switch e.Name() {
		case "lock", "data.new":
		case "postmaster.pid":
			return errs.New(errs.Conflict, "%s is the data directory of a server", dir).Try("name a folder that does not exist")
		default:
			return errs.New(errs.Conflict, "%s is not empty: it contains %s", dir, e.Name()).Try("name a folder that does not exist")
		}
	}
	return nil
}

func fillFolder(fresh string, fill func(*os.Root) error) error {
	as, err := ownerOf(fresh)
	if err != nil {
		return err
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("making a data directory: %w", err)
	}
	root, err := os.OpenRoot(fresh)
	if err != nil {
		return fmt.Errorf("opening a data directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := fill(root); err != nil || !as.drop {
		return err
	}
	return fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(name, as.uid, as.gid)
	})
}
