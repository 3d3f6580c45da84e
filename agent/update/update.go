// Package update replaces the agent by another build, and returns to the old one if the new one is
// unhealthy. It is part of the helper and runs as root.
//
// Two folders contain a build each, and the link current names the running one. The package copies a new
// build into the other folder, verifies it there, and then changes the link. From then on the guard of
// the previous build has a timer: it changes the link back unless the control plane accepts a report of
// the new build in time. After a crash at any point one of the two builds runs.
//
// The package accepts only a release that a release key has signed, and no version below the minimum. It
// does not affect tenants, because their processes are not children of the agent.
package update

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Binary is the agent's name in its folders.
const Binary = "gpuaas-agent"

// GateFor limits the time until the control plane accepts a report of the new build. The return to the
// old build then ends within 60 s of the swap.
const GateFor = 45 * time.Second

// Services is the service manager of the node.
type Services interface {
	// Restart restarts both processes of the agent with the build that current names. It returns before
	// that ends this process.
	Restart(ctx context.Context) error
	// Arm runs the guard after GateFor, also after a restart of the node. The build that previous names
	// executes it. A second call starts the time again.
	Arm(ctx context.Context) error
	// Disarm ends the countdown.
	Disarm(ctx context.Context) error
}

// Request contains the parameters of a task.
type Request struct {
	Task   ids.Task
	Fence  int64
	Params protocol.AgentUpdateParams
}

// Updater replaces the agent of one node. Its fields are set before use.
type Updater struct {
	Lib      string // contains a/, b/ and the links current and previous
	State    string // what is remembered, owned by root
	Staging  string // where the network process stores a build
	Platform string // of this node: linux/amd64
	Version  string // of this build
	Slot     string // the folder that this process was started from: a or b

	Services Services
	Keys     func() map[string][]byte // the release keys that are valid now
	Clock    clock.Clock
	Log      *slog.Logger

	mu       sync.Mutex
	ended    chan struct{} // closed when the attempt that is tried ends here
	reached  func(point string)
	untrying bool // nothing is tried: reports need no check
}

// Become replaces the agent by the build of the task. It returns nil when that build runs and the
// control plane has accepted its report. If ctx ends first, as it does in the restart, the same
// call in the next process continues.
func (u *Updater) Become(ctx context.Context, o Request) error {
	wait, err := u.begin(ctx, o)
	if err != nil || wait == nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wait:
		return u.outcome(o)
	}
}

// begin executes everything up to the restart. The channel is nil if the attempt has already ended.
func (u *Updater) begin(ctx context.Context, o Request) (<-chan struct{}, error) {
	unlock, err := u.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	m, err := u.recall()
	if err != nil {
		return nil, err
	}
	switch last := m.Last; {
	case last != nil && last.Task == o.Task:
		return u.resume(ctx, m)
	case last != nil && last.open():
		return nil, protocol.Reject(protocol.StepFailed, "an update to %s is under way", last.Version)
	case last != nil && o.Fence < last.Fence:
		return nil, protocol.Reject(protocol.StaleFence, "fence %d was overtaken by %d", o.Fence, last.Fence)
	}
	release, err := u.evaluate(o.Params, m.Minimum)
	if err != nil {
		return nil, err
	}
	a := &attempt{Task: o.Task, Fence: o.Fence, Version: release.Version, Digest: release.Digest, Minimum: release.Minimum, Previous: u.Version}
	if a.From, a.To, err = u.slots(); err != nil {
		return nil, err
	}
	if u.Version == release.Version && sum(u.binary(a.From)) == release.Digest {
		return nil, u.already(m, a)
	}
	if err := u.install(ctx, release, a.To); err != nil {
		return nil, err
	}
	u.at("installed")
	a.Phase, a.Since = trying, u.Clock.Now().UTC()
	m.Last = a
	if err := u.storeState(m); err != nil {
		return nil, err
	}
	u.at("recorded")
	return u.swap(ctx, m)
}

// already records that the build runs already.
func (u *Updater) already(m memory, a *attempt) error {
	a.Phase, m.Last, m.Minimum = healthy, a, protocol.Higher(m.Minimum, a.Minimum)
	return u.storeState(m)
}

// swap changes the link and starts the new build. After a crash before the change the old build runs,
// and Become repeats this step. After a crash behind it the guard decides.
func (u *Updater) swap(ctx context.Context, m memory) (<-chan struct{}, error) {
	a := m.Last
	if err := u.point(previous, a.From); err != nil {
		return nil, err
	}
	u.at("linked")
	if err := u.Services.Arm(ctx); err != nil {
		return nil, u.giveUp(m, fmt.Errorf("starting the guard: %w", err))
	}
	u.at("armed")
	if err := u.point(current, a.To); err != nil {
		return nil, u.giveUp(m, err)
	}
	u.at("swapped")
	if err := u.restart(ctx, m); err != nil {
		return nil, err
	}
	u.at("restarted")
	u.Log.InfoContext(ctx, "agent updates itself", "version", a.Version, "previous", a.Previous)
	return u.awaited(), nil
}

// restart has the build that is named started.
func (u *Updater) restart(ctx context.Context, m memory) error {
	err := u.Services.Restart(ctx)
	if err != nil && ctx.Err() != nil {
		return ctx.Err() // it ends this process already: the next one goes on
	} else if err != nil {
		return u.giveUp(m, fmt.Errorf("restarting the agent: %w", err))
	}
	return nil
}

// giveUp reverts swap before a restart.
func (u *Updater) giveUp(m memory, cause error) error {
	return errors.Join(protocol.Reject(protocol.StepFailed, "%v", cause), u.undo(m, cause.Error()))
}

// resume continues an attempt that this process or an earlier one has begun.
func (u *Updater) resume(ctx context.Context, m memory) (<-chan struct{}, error) {
	a := m.Last
	if !a.open() {
		return nil, a.verdict()
	}
	at, err := u.running()
	switch {
	case err != nil:
		return nil, err
	case a.Phase == undoing:
		return nil, errors.Join(u.undo(m, a.Why), a.verdict())
	case at == a.From:
		return u.swap(ctx, m) // interrupted before the link was turned
	case u.Slot != a.To:
		// The link is turned and this is the old build still.
		if err := u.restart(ctx, m); err != nil {
			return nil, err
		}
	}
	return u.awaited(), nil
}

// outcome returns the result of the attempt.
func (u *Updater) outcome(o Request) error {
	m, err := u.recall()
	switch {
	case err != nil:
		return err
	case m.Last == nil || m.Last.Task != o.Task:
		return protocol.Reject(protocol.StaleFence, "overtaken by another update")
	}
	return m.Last.verdict()
}

func (u *Updater) awaited() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.untrying = false
	if u.ended == nil {
		u.ended = make(chan struct{})
	}
	return u.ended
}

// at is a moment at which a crash matters.
func (u *Updater) at(point string) {
	failpoint.Hit("agent.update." + point)
	if u.reached != nil {
		u.reached(point)
	}
}
