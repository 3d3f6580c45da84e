package runner

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Handler carries out one type of task about the node. It is a level: after a crash
// it is called again and must come to the same end. What it answers is a value
// that encodes to a JSON object; its error names the refusal by protocol.Refuse.
type Handler func(context.Context, Job) (answer any, err error)

// Job is what a Handler is given.
type Job struct {
	Envelope protocol.Envelope
	// Begun are the steps that were begun before a crash.
	Begun []string
	// Begin journals that a step begins, and tells of it.
	Begin func(step string) error
}

// within bounds a task about the node.
func within(t protocol.Type) time.Duration {
	if t == protocol.HealthCheck {
		return 30 * time.Minute // level 3 runs diagnostics
	}
	return 5 * time.Minute
}

// handle works one journalled task about the node to its end.
func (r *Runner) handle(ctx context.Context, j *job, e protocol.Envelope) {
	record, i := r.entry(e)
	if i < 0 {
		return // overtaken
	}
	work, cancel := context.WithTimeout(ctx, within(e.Type))
	defer cancel()
	r.at(j, "", within(e.Type))
	number := 0
	answer, err := r.Handlers[e.Type](work, Job{Envelope: e, Begun: record.Tasks[i].Begun, Begin: func(step string) error {
		r.at(j, step, within(e.Type))
		number++
		r.Progress(e.Task, protocol.Progress{Fence: e.Fence, Attempt: e.Attempt, Step: step, Number: number, Of: number})
		err := r.update(e, func(t *journal.Entry) {
			if !slices.Contains(t.Begun, step) {
				t.Begun = append(t.Begun, step)
			}
		})
		failpoint.Hit("agent.node.after_begin")
		return err
	}})
	if ctx.Err() != nil {
		return // resumed by the next start
	}
	result := r.answered(e, answer, err)
	if err != nil {
		r.mu.Lock()
		result.Step = j.step
		r.mu.Unlock()
	}
	r.end(ctx, r.Log.With("task_id", e.Task, "fence", e.Fence, "type", e.Type), e, result)
}

func (r *Runner) answered(e protocol.Envelope, answer any, err error) *protocol.Result {
	if err != nil {
		return r.failed(e, err)
	}
	result := r.result(e, protocol.Succeeded, "", "")
	if answer == nil {
		return result
	}
	if result.Answer, err = json.Marshal(answer); err != nil {
		return r.failed(e, err)
	}
	return result
}

// resetting is the GPU that a task about the node has in hand, or empty.
func resetting(record journal.Record) string {
	last := record.Last()
	if last.Envelope.Type != protocol.GPUReset || last.Result != nil {
		return ""
	}
	p, err := last.Envelope.GPUReset()
	if err != nil {
		return ""
	}
	return p.GPU
}

// idle refuses to reset a GPU that a tenant works on. One that a release left dirty
// may be reset: that is what helps.
func (r *Runner) idle(e protocol.Envelope) error {
	p, err := e.GPUReset()
	if err != nil {
		return err
	}
	for _, other := range r.Journal.All() {
		held := other.Last().Envelope
		if held.Type.OfAllocation() && held.Type != protocol.RevokeUser && slices.Contains(held.Slots, p.GPU) {
			return protocol.Reject(protocol.SlotBusy, "%s belongs to allocation %s", p.GPU, other.Allocation)
		}
	}
	return nil
}

// checks are the health checks of this life. They change nothing, so a task needs
// no journal; but it is heavy work for the devices, and is not done twice.
type checks struct {
	inHand ids.Task
	done   []ids.Task // newest last
}

// maxChecks is more than fresh tasks can be.
const maxChecks = 100

// check needs r.mu.
func (r *Runner) check(e protocol.Envelope) (Answer, error) {
	switch {
	case r.checks.inHand == e.Task:
		return Answer{InHand: true}, nil
	case slices.Contains(r.checks.done, e.Task):
		return Answer{}, protocol.Reject(protocol.Replayed, "the check was already made")
	case r.checks.inHand != ids.Task{}:
		return Answer{}, protocol.Reject(protocol.SlotBusy, "another check is in progress")
	}
	if err := e.Fresh(r.Clock.Now()); err != nil {
		return Answer{}, err
	}
	r.checks.inHand = e.Task
	r.workers.Go(func() {
		ctx, cancel := context.WithTimeout(r.life, within(e.Type))
		defer cancel()
		answer, err := r.Handlers[e.Type](ctx, Job{Envelope: e, Begin: func(string) error { return ctx.Err() }})
		r.mu.Lock()
		r.checks.inHand, r.checks.done = ids.Task{}, append(r.checks.done, e.Task)
		if len(r.checks.done) > maxChecks {
			r.checks.done = r.checks.done[1:]
		}
		r.mu.Unlock()
		r.Probe(r.life, r.answered(e, answer, err))
	})
	return Answer{}, nil
}
