// Package step contains the steps of a node task, one file each. A step checks whether its effect is
// present, makes it, checks it again, and can undo it. Each is idempotent: running or undoing it twice
// has the same effect as once.
//
// A step that returned is no evidence. Verify probes the effect, and the leftover scan at the end of a
// release shares no code with the steps before it.
package step

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

// Step is one step of a task. A nil function has nothing to do.
type Step struct {
	Name   string
	Within time.Duration         // for all its functions together, but for Undo
	Code   protocol.RejectReason // what a failure of this step is called

	// Check reports whether the effect exists. An error rejects the task.
	Check func(context.Context, Host, protocol.AllocationParams) (done bool, err error)
	Do    func(context.Context, Host, protocol.AllocationParams) error
	// Verify probes the effect from outside.
	Verify func(context.Context, Host, protocol.AllocationParams) error
	// Prove runs last, even if the step had no effect, and writes its findings to the proof.
	Prove func(context.Context, Host, protocol.AllocationParams, *protocol.Proof) error
	Undo  func(context.Context, Host, protocol.AllocationParams) error
}

// inspect reads the state of the node for one task. A state that lacks a part of its tenant proves no
// absence, so it is an error.
func inspect(ctx context.Context, h Host, o protocol.AllocationParams) (State, error) {
	s, err := h.Inspect(ctx)
	if err != nil {
		return s, fmt.Errorf("reading the state of the node: %w", err)
	}
	if what := s.Unread[o.UID]; what != "" {
		return s, fmt.Errorf("reading the state of %s: %s", o.User, what)
	}
	return s, nil
}

// observe returns one value of the state.
func observe[T any](ctx context.Context, h Host, o protocol.AllocationParams, find func(State) T) (T, error) {
	s, err := inspect(ctx, h, o)
	if err != nil {
		var zero T
		return zero, err
	}
	return find(s), nil
}

// absent returns a check and a verification. Both succeed if find finds nothing.
func absent(find func(State, protocol.AllocationParams) []string) (check func(context.Context, Host, protocol.AllocationParams) (bool, error), verify func(context.Context, Host, protocol.AllocationParams) error) {
	check = func(ctx context.Context, h Host, o protocol.AllocationParams) (bool, error) {
		return observe(ctx, h, o, func(s State) bool { return len(find(s, o)) == 0 })
	}
	verify = func(ctx context.Context, h Host, o protocol.AllocationParams) error {
		return clean(observe(ctx, h, o, func(s State) []string { return find(s, o) }))
	}
	return check, verify
}

// clean turns findings into an error that names the first of them.
func clean(findings []string, err error) error {
	if err != nil || len(findings) == 0 {
		return err
	}
	return fmt.Errorf("%s (%d findings)", findings[0], len(findings))
}

const (
	// quick is the limit of steps that only read or change values of the kernel.
	quick = 10 * time.Second
	// fair is for steps that start programs of the host OS: systemd reads its units again
	// (measured: two seconds under load), a file system is created, a login is tried.
	fair = 30 * time.Second
	// thorough is the limit of steps that read every file of the host OS. A million files are read
	// in seconds from memory and in minutes from a disk.
	thorough = 5 * time.Minute
	// scrubFor is the limit for all GPUs of a task. A board of 80 GiB is overwritten in about a
	// second, and its reset lasts ten.
	scrubFor = 2 * time.Minute
)
