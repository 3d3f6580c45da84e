package runner

import (
	"context"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Storage is an allocation with mounts of stored objects.
type Storage struct {
	Allocation ids.Allocation
	User       string
	UID        int

	protocol.Storage
}

// Storage lists the allocations that need access keys: those that a tenant has, and those that are provisioned now.
func (r *Runner) Storage() (found []Storage) {
	if r.Journal == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.Journal.All() {
		if p, ok := r.storage(record); ok {
			found = append(found, Storage{record.Allocation, p.User, p.UID, *p.Storage})
		}
	}
	return found
}

// storage needs r.mu.
func (r *Runner) storage(record journal.Record) (p protocol.AllocationParams, ok bool) {
	last := record.Last()
	inProgress := last.Result == nil
	if r.lost != "" || record.Stopped || record.Provisioning() == nil || !record.Provisioned && !inProgress {
		return p, false
	}
	p, err := record.AllocationParams()
	return p, err == nil && p.Storage != nil
}

// Remount mounts again what is not mounted, of the allocations that a tenant has. The control plane sends no task for
// that: an allocation without its storage is not broken.
func (r *Runner) Remount(ctx context.Context) {
	if r.Host == nil || len(r.Storage()) == 0 {
		return
	}
	state, err := r.Host.Inspect(ctx)
	if err != nil {
		return // the report has the reason
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.Journal.All() {
		p, ok := r.storage(record)
		if !ok || r.jobs[record.Allocation] != nil || !isProvisioned(record) || state.Unread[p.UID] != "" || len(step.MountDifferences(state, p)) == 0 {
			continue
		}
		e := record.Last().Envelope
		r.begin(record.Allocation, e.Task, func(ctx context.Context, j *job) { r.remount(ctx, j, e) }) //nolint:contextcheck // work outlives the look
	}
}

func (r *Runner) remount(ctx context.Context, j *job, e protocol.Envelope) {
	if err := task.Remount(ctx, r.execution(j, e)); err != nil {
		r.Log.WarnContext(ctx, "stored objects not mounted", "allocation_id", e.Allocation, "err", err)
		return
	}
	r.Log.InfoContext(ctx, "stored objects mounted again", "allocation_id", e.Allocation)
}
