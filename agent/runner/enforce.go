package runner

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/protocol"
)

// Enforce applies the last tasks again where the node differs from them. A node does that only
// while the control plane does not respond, because otherwise the control plane decides. silent is
// the duration of that outage; after a limit in the task the tenant is stopped.
func (r *Runner) Enforce(ctx context.Context, silent time.Duration) {
	if r.Journal == nil || r.Host == nil {
		return
	}
	state, err := r.Host.Inspect(ctx)
	if err != nil {
		r.Log.WarnContext(ctx, "state of the node not read; nothing enforced", "err", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.Journal.All() {
		last := record.Last()
		if r.lost != "" || r.jobs[record.Allocation] != nil || !isProvisioned(record) {
			continue
		}
		params, err := record.AllocationParams()
		if err != nil {
			continue // the report has the reason
		}
		late := params.StopAfterHours > 0 && silent >= time.Duration(params.StopAfterHours)*time.Hour
		switch {
		case late, record.Stopped:
			r.begin(record.Allocation, last.Envelope.Task, func(ctx context.Context, j *job) { r.stop(ctx, j, last.Envelope) }) //nolint:contextcheck // work outlives the look
		case state.Unread[params.UID] == "" && len(step.Differences(state, params))+len(step.MountDifferences(state, params)) > 0:
			r.begin(record.Allocation, last.Envelope.Task, func(ctx context.Context, j *job) { r.repair(ctx, j, last.Envelope) }) //nolint:contextcheck // as above
		}
	}
}

// isProvisioned reports whether a tenant has the allocation on this node, by the last task.
func isProvisioned(record journal.Record) bool {
	effect := record.Last().Envelope.Type.Effect()
	return record.Last().Succeeded() && (effect == protocol.Provisions || effect == protocol.Amends)
}

func (r *Runner) repair(ctx context.Context, j *job, e protocol.Envelope) {
	if err := task.Repair(ctx, r.execution(j, e)); err != nil {
		r.Log.WarnContext(ctx, "not as ordered, and not repaired", "allocation_id", e.Allocation, "err", err)
		return
	}
	r.Log.InfoContext(ctx, "repaired without the control plane", "allocation_id", e.Allocation)
}

// stop ends the tenant's logins and processes. The slot stays the tenant's.
func (r *Runner) stop(ctx context.Context, j *job, e protocol.Envelope) {
	// Written before the first step: an agent that starts again must not let the tenant log in.
	var err error
	if record, _ := r.Journal.Get(e.Allocation); !record.Stopped {
		err = r.revise(e, func(record *journal.Record) { record.Stopped = true })
	}
	if err == nil {
		err = task.Stop(ctx, r.execution(j, e))
	}
	if err != nil {
		r.Log.ErrorContext(ctx, "tenant not stopped", "allocation_id", e.Allocation, "err", err)
		return
	}
	r.Log.WarnContext(ctx, "tenant stopped: no response of the control plane", "allocation_id", e.Allocation)
}
