package update

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// memory is the state of the updater on disk.
type memory struct {
	// Minimum is the lowest version that this node may install. It only rises, with each build that
	// became healthy.
	Minimum string   `json:"floor"`
	Last    *attempt `json:"last,omitempty"`
}

// attempt is one attempt to replace the agent by another build.
type attempt struct {
	Task     ids.Task  `json:"task_id"`
	Fence    int64     `json:"fence"`
	Version  string    `json:"version"`
	Digest   string    `json:"digest"`
	Minimum  string    `json:"minimum"`
	Previous string    `json:"previous"` // the version that it was
	From     string    `json:"from"`     // a or b
	To       string    `json:"to"`
	Phase    phase     `json:"phase"`
	Since    time.Time `json:"since"`
	Why      string    `json:"why,omitempty"`
}

type phase string

const (
	trying  phase = "trying"  // the link is about to be turned, or turned and not proved
	undone  phase = "undone"  // the old build is named again
	undoing phase = "undoing" // decided, and the link perhaps not yet turned back
	healthy phase = "healthy"
)

func (a *attempt) open() bool { return a.Phase == trying || a.Phase == undoing }

// verdict returns the result of the attempt for the control plane.
func (a *attempt) verdict() error {
	switch a.Phase {
	case healthy:
		return nil
	case trying:
		return protocol.Reject(protocol.StepFailed, "the update to %s has not ended", a.Version)
	case undoing, undone:
	}
	return protocol.Reject(protocol.RolledBack, "back on %s: %s", a.Previous, a.Why)
}

const memoryFile = "update.json"

// recall reads the stored state. Damaged state hides the lowest allowed version, so recall returns
// an error until an operator has repaired the node.
func (u *Updater) recall() (m memory, err error) {
	text, err := os.ReadFile(filepath.Join(u.State, memoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return memory{}, nil
	} else if err != nil {
		return m, fmt.Errorf("reading the update state: %w", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, protocol.Reject(protocol.JournalLost, "%s is damaged: how old a version may be is not known", filepath.Join(u.State, memoryFile))
	}
	return m, nil
}

func (u *Updater) storeState(m memory) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding the update state: %w", err)
	}
	return durable.Write(filepath.Join(u.State, memoryFile), text, 0o600)
}

// lock serialises the agent and the guard, which is a separate process.
func (u *Updater) lock() (unlock func(), err error) {
	if err := os.MkdirAll(u.State, 0o700); err != nil {
		return nil, fmt.Errorf("locking the update: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(u.State, "update.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the update: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the update: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
