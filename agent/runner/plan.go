package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Plan lists the steps that would correct one allocation now.
type Plan struct {
	Allocation ids.Allocation `json:"allocation_id"`
	Type       protocol.Type  `json:"type"`
	Fence      int64          `json:"fence"`
	Steps      []PlannedStep  `json:"steps"`
}

// PlannedStep is one step that was checked and not executed.
type PlannedStep struct {
	Name   string `json:"name"`
	Change bool   `json:"change"`        // it would act
	Why    string `json:"why,omitempty"` // it would fail, and so
}

// Changes reports whether the plan would change anything.
func (p Plan) Changes() bool {
	for _, s := range p.Steps {
		if s.Change || s.Why != "" {
			return true
		}
	}
	return false
}

// Plans checks every step of the last task of each allocation, and changes nothing. A released
// allocation has no plan: its GPUs may belong to another tenant.
func (r *Runner) Plans(ctx context.Context) ([]Plan, error) {
	if r.Journal == nil || r.Host == nil {
		return nil, protocol.Reject(protocol.JournalLost, "the journal contains no task of this node")
	}
	plans := []Plan{}
	for _, record := range r.Journal.All() {
		last := record.Last().Envelope
		params, err := record.AllocationParams()
		if err != nil || last.Type.Scope() != protocol.ScopeAllocation || record.Released() {
			continue
		}
		p := Plan{Allocation: record.Allocation, Type: last.Type, Fence: last.Fence, Steps: []PlannedStep{}}
		for _, step := range r.StepsOf(record, last.Type) {
			p.Steps = append(p.Steps, r.plan(ctx, step, params))
		}
		plans = append(plans, p)
	}
	return plans, ctx.Err()
}

func (r *Runner) plan(ctx context.Context, step step.Step, params protocol.AllocationParams) PlannedStep {
	ctx, cancel := context.WithTimeout(ctx, step.Within)
	defer cancel()
	done, err := step.Check(ctx, r.Host, params)
	if err != nil {
		return PlannedStep{Name: step.Name, Why: err.Error()}
	}
	return PlannedStep{Name: step.Name, Change: !done}
}

// stuckAfter is beyond a step's own deadline. A step that outlasts it ignores its
// deadline, as one in the kernel's hands does.
const stuckAfter = time.Minute

// Alive returns why the runner is stuck, or nil.
func (r *Runner) Alive(now time.Time) error {
	r.mu.Lock() // locked while the journal is written, so a disk that hangs is found here
	defer r.mu.Unlock()
	for id, j := range r.jobs {
		if !j.due.IsZero() && now.After(j.due.Add(stuckAfter)) {
			return fmt.Errorf("step %s of allocation %s should have ended at %s", j.step, id, j.due.Format(time.RFC3339))
		}
	}
	return nil
}
