package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockStateDir takes the state directory for this agent. Two of them would each keep a
// memory of its own and write over the other's: a fence would be forgotten. The
// kernel lets go of the lock when the process ends in whatever way.
func lockStateDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another agent runs on this node: %w", err)
	}
	return f, nil
}
