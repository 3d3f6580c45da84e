package update

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaas/protocol"
)

// HandleAck processes the response to a report. sender is the version of the process that sent the
// report. A report of the new build that the control plane has accepted proves that build.
func (u *Updater) HandleAck(ctx context.Context, sender string) error {
	u.mu.Lock()
	skip := u.untrying
	u.mu.Unlock()
	if skip {
		return nil
	}
	unlock, err := u.lock()
	if err != nil {
		return err
	}
	defer unlock()
	m, err := u.recall()
	if err != nil {
		return err
	}
	a := m.Last
	if a == nil || !a.open() {
		u.finish()
		return nil
	}
	at, err := u.running()
	if err != nil || a.Phase != trying || at != a.To || u.Slot != a.To || sender != a.Version {
		return err
	}
	a.Phase, m.Minimum = healthy, protocol.Higher(m.Minimum, a.Minimum)
	if err := u.storeState(m); err != nil {
		return err
	}
	u.at("confirmed")
	u.Log.InfoContext(ctx, "agent is updated", "version", a.Version, "previous", a.Previous)
	u.finish()
	if err := u.Services.Disarm(ctx); err != nil {
		// The timer fires once more, and its service finds no attempt.
		return fmt.Errorf("ending the guard: %w", err)
	}
	return nil
}

// Guard turns the link back when the new build has not proved itself. It is run by
// the build that was left, in a process of its own, after the gate's time.
func (u *Updater) Guard(ctx context.Context, why func(context.Context) string) (undid bool, err error) {
	unlock, err := u.lock()
	if err != nil {
		return false, err
	}
	defer unlock()
	m, err := u.recall()
	if err != nil || m.Last == nil || !m.Last.open() {
		return false, err
	}
	reason := m.Last.Why
	if m.Last.Phase == trying {
		reason = u.reason(ctx, m.Last, why)
	}
	if err := u.undo(m, reason); err != nil {
		return false, err
	}
	u.Log.WarnContext(ctx, "the agent returns to the previous build", "version", m.Last.Previous, "from", m.Last.Version, "reason", reason)
	return true, u.Services.Restart(ctx)
}

func (u *Updater) reason(ctx context.Context, a *attempt, why func(context.Context) string) string {
	if at, err := u.running(); err == nil && at == a.From {
		return "the agent was interrupted before it could change over"
	}
	reason := fmt.Sprintf("no report of %s was accepted within %s", a.Version, GateFor)
	if said := strings.TrimSpace(why(ctx)); said != "" {
		reason += " (" + said + ")"
	}
	return reason
}

// undo points the link to the old build. After a crash the decision is on disk, and the next process
// executes it.
func (u *Updater) undo(m memory, reason string) error {
	m.Last.Phase, m.Last.Why = undoing, reason
	if err := u.storeState(m); err != nil {
		return err
	}
	u.at("undoing")
	if err := u.point(current, m.Last.From); err != nil {
		return err
	}
	u.at("turned_back")
	m.Last.Phase = undone
	if err := u.storeState(m); err != nil {
		return err
	}
	u.at("undone")
	u.finish()
	return nil
}

// finish ends the wait for the attempt.
func (u *Updater) finish() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.untrying = true
	if u.ended != nil {
		close(u.ended)
		u.ended = nil
	}
}
