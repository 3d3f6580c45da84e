package runner

import (
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
