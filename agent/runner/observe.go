package runner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

// mostGone limits the allocations of a report that the node has proved gone. A report has 1 MiB at most, and a tenant
// decides how many allocations it creates and releases. Twice the GPUs of the largest node exceed what can be released
// between two reports.
const mostGone = 512

// observation is the report of a record, and the number of the write that made the record.
type observation struct {
	protocol.AllocationReport

	write int64
}

// Observe reports each allocation of the journal, of those that are gone only the last. The phase follows from the state
// of the host OS and not from earlier results.
func (r *Runner) Observe(state step.State) []protocol.AllocationReport {
	if r.Journal == nil {
		return []protocol.AllocationReport{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var seen []observation
	for _, record := range r.Journal.All() {
		if record.Last().Envelope.Type.Scope() == protocol.ScopeAllocation {
			seen = append(seen, observation{r.observe(record, state), record.Write})
		}
	}
	return lastGone(seen)
}

// observe reports the last task of an allocation. A task without a result is in progress, so the state of the node is
// between two specs and is not compared.
func (r *Runner) observe(record journal.Record, state step.State) protocol.AllocationReport {
	last := record.Last()
	s := protocol.AllocationReport{
		Allocation: record.Allocation, Fence: last.Envelope.Fence,
		Generation: last.Envelope.Generation, SpecHash: last.Envelope.SpecHash,
	}
	if last.Result != nil {
		classifyPhase(&s, record, state)
		return s
	}
	s.Phase = protocol.Working
	if j := r.jobs[record.Allocation]; j != nil {
		s.Step = j.step
	}
	return s
}

// lastGone leaves out all but the last allocations that are gone. A result that the control plane repeats or
// acknowledges is a new write, so an allocation that it waits for is reported again.
func lastGone(seen []observation) []protocol.AllocationReport {
	var gone []int64
	for _, o := range seen {
		if o.Phase == protocol.Gone {
			gone = append(gone, o.write)
		}
	}
	slices.Sort(gone)
	oldest := int64(0)
	if n := len(gone) - mostGone; n > 0 {
		oldest = gone[n]
	}
	reports := make([]protocol.AllocationReport, 0, len(seen))
	for _, o := range seen {
		if o.Phase != protocol.Gone || o.write >= oldest {
			reports = append(reports, o.AllocationReport)
		}
	}
	return reports
}

// classifyPhase compares the node with the last task that has a result. The result alone is no evidence: the state may
// have changed since.
func classifyPhase(s *protocol.AllocationReport, record journal.Record, state step.State) {
	last := record.Last()
	params, err := record.AllocationParams()
	if err != nil { // this build rejects parameters that an older one accepted
		s.Phase, s.Message = protocol.Broken, err.Error()
		return
	}
	if s.Unread = state.Unread[params.UID]; s.Unread != "" {
		s.Phase = protocol.Working // of which nothing follows
		return
	}
	released := record.Released()
	if !released {
		s.Mounts = step.MountReports(state, params)
	}
	var wrong []string
	switch {
	case !last.Succeeded():
		s.Step, wrong = last.Result.Step, []string{last.Result.Message}
	case released:
		// Another tenant may have the GPUs already. Nothing else of this one may exist.
		wrong = step.Traces(state, params)
	default:
		wrong = step.Differences(state, params)
	}
	switch {
	case len(wrong) > 0:
		s.Phase, s.Message = protocol.Broken, strings.Join(wrong, "; ")
	case released:
		s.Phase, s.Proof = protocol.Gone, last.Result.Proof
	default:
		s.Phase = protocol.Ready
	}
}

// Foreign lists the use of GPUs that no allocation accounts for.
func (r *Runner) Foreign(state step.State) (found []string) {
	owner := map[string]int{} // GPU → uid of the allocation that uses it
	if r.Journal != nil {
		for _, record := range r.Journal.All() {
			params, err := record.Last().Envelope.AllocationParams()
			if err != nil || record.Released() {
				continue
			}
			for _, uuid := range params.GPUs {
				owner[uuid] = params.UID
			}
		}
	}
	for _, p := range state.Processes {
		if uid, held := owner[p.GPU]; p.GPU != "" && (!held || uid != p.UID) {
			found = append(found, fmt.Sprintf("%s: process %d (%s) of uid %d", p.GPU, p.PID, p.Command, p.UID))
		}
	}
	slices.Sort(found)
	return found
}

// recordLifetime is the time that a record stays after its last task. It exceeds the validity of every
// task that was signed before, on a clock that is wrong by a day.
const recordLifetime = 48 * time.Hour

// Of more records than mostRecords, the oldest stay for shortLifetime only. The journal rejects the tasks of deleted
// records by the time of their signature. A record is a file of 4 kB, every report reads
// all, and a tenant decides how many allocations it creates and releases.
const shortLifetime = time.Hour

var mostRecords = 4096 // a variable for tests

// DeleteOldRecords deletes the records of finished allocations that no report needs.
func (r *Runner) DeleteOldRecords() error {
	if r.Journal == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock.Now()
	if err := r.Journal.Delete(now.Add(-recordLifetime), finished); err != nil {
		return err
	}
	var writes []int64
	for _, record := range r.Journal.All() {
		writes = append(writes, record.Write)
	}
	if len(writes) <= mostRecords {
		return nil
	}
	slices.Sort(writes)
	newest := writes[len(writes)-mostRecords]
	return r.Journal.Delete(now.Add(-shortLifetime), func(record journal.Record) bool { return record.Write < newest && finished(record) })
}

// finished reports whether the allocation is released and the control plane has all results.
func finished(record journal.Record) bool {
	return record.Released() && !slices.ContainsFunc(record.Tasks, func(t journal.Entry) bool { return !t.Acked })
}
