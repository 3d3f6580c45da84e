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

// Observe reports each allocation of the journal. The phase follows from the state of the host OS and
// not from earlier results.
func (r *Runner) Observe(state step.State) []protocol.AllocationReport {
	seen := []protocol.AllocationReport{}
	if r.Journal == nil {
		return seen
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.Journal.All() {
		last := record.Last()
		if last.Envelope.Type.Scope() != protocol.ScopeAllocation {
			continue
		}
		s := protocol.AllocationReport{
			Allocation: record.Allocation, Fence: last.Envelope.Fence,
			Generation: last.Envelope.Generation, SpecHash: last.Envelope.SpecHash,
		}
		if j := r.jobs[record.Allocation]; last.Result == nil {
			s.Phase = protocol.Working
			if j != nil {
				s.Step = j.step
			}
		} else {
			classifyPhase(&s, record, state)
		}
		seen = append(seen, s)
	}
	return seen
}

func classifyPhase(s *protocol.AllocationReport, record journal.Record, state step.State) {
	last := record.Last()
	order, err := record.Order()
	if err != nil { // this build rejects parameters that an older one accepted
		s.Phase, s.Message = protocol.Broken, err.Error()
		return
	}
	if s.Unread = state.Unread[order.UID]; s.Unread != "" {
		s.Phase = protocol.Working // of which nothing follows
		return
	}
	released := record.Released()
	var wrong []string
	switch {
	case !last.Succeeded():
		s.Step, wrong = last.Result.Step, []string{last.Result.Message}
	case released:
		// Another tenant may have the GPUs already. Nothing else of this one may exist.
		wrong = step.Traces(state, order)
	default:
		wrong = step.Differences(state, order)
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
	owner := map[string]int{} // GPU → uid of the allocation that holds it
	if r.Journal != nil {
		for _, record := range r.Journal.All() {
			order, err := record.Last().Envelope.Order()
			if err != nil || record.Released() {
				continue
			}
			for _, uuid := range order.GPUs {
				owner[uuid] = order.UID
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

// DeleteOldRecords deletes the records that no valid task can refer to.
func (r *Runner) DeleteOldRecords() error {
	if r.Journal == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Journal.Delete(r.Clock.Now().Add(-recordLifetime), func(record journal.Record) bool {
		told := !slices.ContainsFunc(record.Tasks, func(t journal.Entry) bool { return !t.Acked })
		return record.Released() && told
	})
}
