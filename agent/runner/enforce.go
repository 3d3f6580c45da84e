package runner

import (
	"context"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

// Enforce makes what differs from the last orders hold again. It is for a node that
// hears nothing of the control plane, which otherwise decides; silent is for how
// long. An order may want its tenant stopped by then.
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
		order, err := lastApplied(record)
		if err != nil {
			continue // the report says so
		}
		late := order.StopAfterHours > 0 && silent >= time.Duration(order.StopAfterHours)*time.Hour
		switch {
		case late, record.Stopped:
			r.begin(record.Allocation, last.Envelope.Task, func(ctx context.Context, _ *job) { r.stop(ctx, last.Envelope, order) }) //nolint:contextcheck // work outlives the look
		case len(step.Differences(state, order)) > 0:
			r.begin(record.Allocation, last.Envelope.Task, func(ctx context.Context, j *job) { r.repair(ctx, j, last.Envelope, order) }) //nolint:contextcheck // as above
		}
	}
}

// isProvisioned says whether a tenant is to be on the host, by what was done last.
func isProvisioned(record journal.Record) bool {
	last := record.Last()
	return last.Envelope.Type.OfAllocation() && last.Envelope.Type != protocol.RevokeUser &&
		last.Result != nil && last.Result.Outcome == protocol.Succeeded
}

// repair takes the steps of a provisioning once more. Each looks first, so that only
// what differs is done. The result stays the one that the control plane has.
func (r *Runner) repair(ctx context.Context, j *job, e protocol.Envelope, order protocol.Order) {
	for _, step := range r.Steps(protocol.ProvisionUser) {
		r.at(j, step.Name, step.Within)
		if err := r.step(ctx, step, e, order, blank(e, order)); err != nil {
			r.Log.WarnContext(ctx, "not as ordered, and not repaired", "allocation_id", e.Allocation, "step", step.Name, "err", err)
			return
		}
	}
	r.Log.InfoContext(ctx, "repaired without the control plane", "allocation_id", e.Allocation)
}

// stopped names the steps of a release that end logins and sessions, and leave what
// the tenant has on the host.
var stopped = []string{"block_login", "end_sessions", "kill_processes"}

// stop ends the tenant's logins and work. The slot stays the tenant's.
func (r *Runner) stop(ctx context.Context, e protocol.Envelope, order protocol.Order) {
	r.mu.Lock()
	record, ok := r.Journal.Get(e.Allocation)
	if ok && !record.Stopped && record.Last().Envelope.Task == e.Task {
		// Before acting: a node that starts again must not let the tenant back in.
		record.Stopped = true
		if err := r.Journal.Put(record); err != nil {
			r.Log.ErrorContext(ctx, "tenant not stopped", "allocation_id", e.Allocation, "err", err)
			ok = false
		}
	}
	r.mu.Unlock()
	if !ok {
		return
	}
	for _, step := range r.Steps(protocol.RevokeUser) {
		if !slices.Contains(stopped, step.Name) {
			continue
		}
		if err := r.step(ctx, step, e, order, blank(e, order)); err != nil {
			r.Log.ErrorContext(ctx, "tenant not stopped", "allocation_id", e.Allocation, "step", step.Name, "err", err)
			return
		}
	}
	r.Log.WarnContext(ctx, "tenant stopped: no response of the control plane", "allocation_id", e.Allocation)
}
