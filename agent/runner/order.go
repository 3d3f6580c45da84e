package runner

import (
	"slices"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// A rotation says only who may log in. The rest of the order stands in the
// provisioning before it, which the journal therefore keeps.

// provisioned is the provisioning that an allocation stands by, or nil.
func provisioned(record journal.Record) *journal.Entry {
	for i := range slices.Backward(record.Tasks) {
		switch record.Tasks[i].Envelope.Type {
		case protocol.ProvisionUser:
			return &record.Tasks[i]
		case protocol.RevokeUser:
			return nil
		case protocol.RotateKeys, protocol.Probe, protocol.HealthCheck, protocol.GPUReset, protocol.AgentUpdate:
		}
	}
	return nil
}

// lastApplied is the order that the host is to be like after the last task.
func lastApplied(record journal.Record) (protocol.Order, error) {
	return orderUpTo(record, len(record.Tasks))
}

// orderUpTo puts the first n tasks of a record together: what the last of them
// says, on what it builds on.
func orderUpTo(record journal.Record, n int) (protocol.Order, error) {
	last := record.Tasks[n-1]
	order, err := last.Envelope.Order()
	if err != nil || last.Envelope.Type != protocol.RotateKeys {
		return order, err
	}
	base := provisioned(journal.Record{Tasks: record.Tasks[:n]})
	if base == nil {
		return order, protocol.Reject(protocol.ParamsInvalid, "the keys of an allocation that is not on this node")
	}
	whole, err := base.Envelope.Order()
	whole.PublicKeys, whole.UserCA, whole.Revoked = order.PublicKeys, order.UserCA, order.Revoked
	return whole, err
}

// orderOf is the order of a task that is in the journal.
func (r *Runner) orderOf(e protocol.Envelope) (protocol.Order, error) {
	record, i := r.entry(e)
	if i < 0 {
		return e.Order()
	}
	return orderUpTo(record, i+1)
}

func (r *Runner) entry(e protocol.Envelope) (journal.Record, int) {
	record, _ := r.Journal.Get(e.Allocation)
	return record, slices.IndexFunc(record.Tasks, func(t journal.Entry) bool { return t.Envelope.Task == e.Task })
}

// stepsOf are the steps of a task. A rotation that overtook its provisioning
// finishes that, too.
func (r *Runner) stepsOf(e protocol.Envelope) []step.Step {
	if e.Type == protocol.RotateKeys {
		record, _ := r.Journal.Get(e.Allocation)
		if base := provisioned(record); base != nil && (base.Result == nil || base.Result.Outcome != protocol.Succeeded) {
			return r.Steps(protocol.ProvisionUser)
		}
	}
	return r.Steps(e.Type)
}

// neededBy is the task that the next one builds on, or zero.
func neededBy(record journal.Record, next protocol.Envelope) ids.Task {
	base := provisioned(record)
	if next.Type != protocol.RotateKeys || base == nil {
		return ids.Task{}
	}
	return base.Envelope.Task
}
