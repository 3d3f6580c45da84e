package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	lockTries = 100
	lockRetry = 10 * time.Millisecond
)

// lockStateDir locks the state directory for this agent. Two agents would overwrite each other's state,
// and a fence would be lost. The kernel releases the lock when the process ends. A child of an agent that
// was killed between fork and exec still has the lock for a moment, so a locked directory is tried again
// for a second.
func lockStateDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	for range lockTries {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(lockRetry)
	}
	_ = f.Close()
	return nil, fmt.Errorf("another agent runs on this node: %w", err)
}
