package runner

import (
	"time"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Active returns the parameters of an allocation whose login is in place at a fence. It rejects an allocation of which no
// provisioning has succeeded, whose release has begun, or whose tenant this node has stopped.
func (r *Runner) Active(of ids.Allocation, fence int64) (protocol.AllocationParams, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Journal == nil || r.lost != "" {
		return protocol.AllocationParams{}, protocol.Reject(protocol.JournalLost, "this node must be enrolled again")
	}
	record, known := r.Journal.Get(of)
	switch {
	case !known || !record.Provisioned || record.Stopped || record.Provisioning() == nil:
		return protocol.AllocationParams{}, protocol.Reject(protocol.NotActive, "allocation %s is not active on this node", of)
	case fence < record.Last().Envelope.Fence:
		return protocol.AllocationParams{}, protocol.Reject(protocol.StaleFence, "the stream is for fence %d, this node has %d", fence, record.Last().Envelope.Fence)
	case fence > record.Last().Envelope.Fence:
		return protocol.AllocationParams{}, protocol.Reject(protocol.NotActive, "this node has not received fence %d of allocation %s", fence, of)
	}
	return record.AllocationParams()
}

// History returns the record of an allocation, also after its release. It rejects an allocation that this node does not know,
// and a fence before the last one.
func (r *Runner) History(of ids.Allocation, fence int64) (journal.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Journal == nil || r.lost != "" {
		return journal.Record{}, protocol.Reject(protocol.JournalLost, "this node must be enrolled again")
	}
	record, known := r.Journal.Get(of)
	switch {
	case !known:
		return record, protocol.Reject(protocol.NotActive, "allocation %s is not on this node", of)
	case fence < record.Last().Envelope.Fence:
		return record, protocol.Reject(protocol.StaleFence, "the stream is for fence %d, this node has %d", fence, record.Last().Envelope.Fence)
	}
	return record, nil
}

// Since returns the time of the task that provisioned an active allocation.
func (r *Runner) Since(of ids.Allocation) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if record, known := r.Journal.Get(of); known && record.Provisioning() != nil {
		return record.Provisioning().Envelope.SignedAt()
	}
	return r.Clock.Now()
}
