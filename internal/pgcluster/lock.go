package pgcluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// lockDir locks the directory for this process. The kernel releases the lock at the end of the process
// for any reason, so a leftover lock file has no meaning.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if os.IsPermission(err) {
		return nil, errs.New(errs.Forbidden, "%s belongs to another user", dir).
			Try("run as that user, or choose another directory").Because(err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the lock of %s: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		held := heldBy(f, dir)
		_ = f.Close()
		return nil, held
	}
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("writing the lock of %s: %w", dir, err)
		}
	}
	return f, nil
}

func heldBy(f *os.File, dir string) error {
	text := make([]byte, 20)
	n, _ := f.ReadAt(text, 0) // a holder that has not written yet is still a holder
	pid, err := strconv.Atoi(string(trim(text[:n])))
	if err != nil {
		return errs.New(errs.Conflict, "%s is in use by another process", dir)
	}
	return errs.New(errs.Conflict, "%s is in use by process %d", dir, pid).
		With("pid", pid).Try("stop process %d first, or choose another directory", pid)
}

func trim(text []byte) []byte { return bytes.TrimSpace(text) }

// unlock releases the lock. Closing the file alone does not release it while a child that another goroutine starts has a
// copy of the file, until the child executes its program.
func unlock(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// Idle returns an error, as Start would, while another process owns the directory.
func Idle(dir string) error {
	f, err := lockDir(dir)
	if err != nil {
		return err
	}
	return unlock(f)
}
