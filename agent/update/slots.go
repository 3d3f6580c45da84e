package update

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaas/protocol"
)

const (
	current  = "current"
	previous = "previous"
)

func (u *Updater) binary(slot string) string { return filepath.Join(u.Lib, slot, Binary) }

// slots are the folder that is named by current, and the other one.
func (u *Updater) slots() (from, to string, err error) {
	switch from, err = u.running(); {
	case err != nil:
		return "", "", err
	case from == "a":
		return from, "b", nil
	}
	return from, "a", nil
}

// running is the folder that current names.
func (u *Updater) running() (string, error) {
	to, err := os.Readlink(filepath.Join(u.Lib, current))
	switch {
	case err != nil:
		return "", fmt.Errorf("reading which build runs: %w", err)
	case to != "a" && to != "b":
		return "", protocol.Reject(protocol.StepFailed, "%s names %q, neither a nor b", filepath.Join(u.Lib, current), to)
	}
	return to, nil
}

// point changes a link in one step. A process that starts the agent meanwhile finds the old build or the
// new one.
func (u *Updater) point(link, slot string) error {
	temp := filepath.Join(u.Lib, "."+link)
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("turning %s: %w", link, err)
	}
	if err := os.Symlink(slot, temp); err != nil {
		return fmt.Errorf("turning %s: %w", link, err)
	}
	if err := os.Rename(temp, filepath.Join(u.Lib, link)); err != nil {
		return fmt.Errorf("turning %s: %w", link, err)
	}
	return syncDir(u.Lib)
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
