package journal

import (
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Record is the part of the journal that belongs to one allocation, or to the node if Allocation is zero.
type Record struct {
	Allocation ids.Allocation `json:"allocation_id"`
	// Tasks are sorted by admission. The last one has the highest fence and attempt.
	Tasks []Entry `json:"tasks"`
	// Stopped means that the agent ended the tenant's logins by itself, because the control plane did not
	// answer for too long. The next task resets it.
	Stopped bool `json:"stopped,omitempty"`
	// Stood means that a provisioning succeeded and no release was admitted since: the home contains the
	// tenant's data, and a failed repair must not remove it.
	Provisioned bool `json:"stood,omitempty"`
	// Write is the number of the write that made this record. The highest number is the age of the journal.
	Write int64 `json:"write,omitempty"`
}

// Entry is one admitted task.
type Entry struct {
	Envelope protocol.Envelope `json:"envelope"`
	Digest   string            `json:"digest"` // hex SHA-256 of the signed bytes
	// Begun lists the steps that the task has begun, each before it acted.
	Begun []string `json:"begun"`
	// BegunAt has the time of each of them. It is shorter in records of an older agent.
	BegunAt []time.Time      `json:"begun_at,omitempty"`
	Result  *protocol.Result `json:"result,omitempty"`
	Acked   bool             `json:"told"` // the control plane has the result
}

// Succeeded reports whether the task ended with success.
func (e *Entry) Succeeded() bool { return e.Result != nil && e.Result.Outcome == protocol.Succeeded }

// Last returns the task that was admitted last.
func (r Record) Last() *Entry { return &r.Tasks[len(r.Tasks)-1] }

// Find returns the index of a task, or -1.
func (r Record) Find(task ids.Task) int {
	return slices.IndexFunc(r.Tasks, func(t Entry) bool { return t.Envelope.Task == task })
}

// Released reports whether a proof shows that nothing of the allocation is left.
func (r Record) Released() bool {
	last := r.Last()
	return last.Envelope.Type.Effect() == protocol.Releases && last.Succeeded()
}

// Provisioning returns the provisioning that the allocation depends on. It returns nil if there is none, or
// if a release followed.
func (r Record) Provisioning() *Entry {
	for i := range slices.Backward(r.Tasks) {
		switch r.Tasks[i].Envelope.Type.Effect() {
		case protocol.Provisions:
			return &r.Tasks[i]
		case protocol.Releases:
			return nil
		case protocol.Amends, protocol.NoEffect:
		}
	}
	return nil
}

// AllocationParams returns what the last task and the provisioning before it request together.
func (r Record) AllocationParams() (protocol.AllocationParams, error) {
	return r.AllocationParamsAt(len(r.Tasks) - 1)
}

// AllocationParamsAt returns AllocationParams as of the task with index i. An amending task contains only what it changes, so the rest
// is in the provisioning before it, which the journal retains for that.
func (r Record) AllocationParamsAt(i int) (protocol.AllocationParams, error) {
	task := r.Tasks[i].Envelope
	params, err := task.AllocationParams()
	if err != nil || task.Type.Effect() != protocol.Amends {
		return params, err
	}
	base := Record{Tasks: r.Tasks[:i+1]}.Provisioning()
	if base == nil {
		return params, protocol.Reject(protocol.ParamsInvalid, "the keys of an allocation that is not on this node")
	}
	return base.Envelope.AmendedBy(task)
}

// clone returns a copy that shares no mutable data with r.
func (r Record) clone() Record {
	r.Tasks = slices.Clone(r.Tasks)
	for i := range r.Tasks {
		r.Tasks[i].Begun, r.Tasks[i].BegunAt = slices.Clone(r.Tasks[i].Begun), slices.Clone(r.Tasks[i].BegunAt)
	}
	return r
}
