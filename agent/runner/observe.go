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

// Observe says how each remembered allocation is, judged by the state of the host
// and not by what was once done to it.
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
	if err != nil { // an older build took what this one refuses
		s.Phase, s.Message = protocol.Broken, err.Error()
		return
	}
	released := record.Released()
	var wrong []string
	switch {
	case !last.Succeeded():
		s.Step, wrong = last.Result.Step, []string{last.Result.Message}
	case released:
		// Its GPUs may be somebody else's by now; nothing else of it may be back.
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

// recordLifetime is how long a record outlives its last task: longer than any task that
// was signed before it may stay fresh, on a clock that is a day off.
const recordLifetime = 48 * time.Hour

// DeleteOldRecords drops the records that nobody can ask for any more.
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
