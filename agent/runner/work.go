package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// stepError is a failure with the step where it happened.
type stepError struct {
	step  step.Step
	cause error
}

func (e *stepError) Error() string { return e.step.Name + ": " + e.cause.Error() }
func (e *stepError) Unwrap() error { return e.cause }

// execute works one task to its end, or until ctx ends: then a newer task has
// overtaken it, or the agent stops and resumes it later.
func (r *Runner) execute(ctx context.Context, j *job, e protocol.Envelope) {
	log := r.Log.With("task_id", e.Task, "fence", e.Fence, "type", e.Type)
	if e.Type.OfNode() {
		r.handle(ctx, j, e)
		return
	}
	order, err := r.orderOf(e)
	if err == nil && e.Type != protocol.RevokeUser && !r.Clock.Now().Before(e.ExpiresAt) {
		// Interrupted, and found again too late. A release goes on: it only removes.
		err = protocol.Reject(protocol.Expired, "interrupted, and expired before it was resumed")
	}
	var proof *protocol.Proof
	if err == nil {
		proof, err = r.steps(ctx, j, e, order)
	}
	if ctx.Err() != nil {
		return
	}
	result := r.result(e, protocol.Succeeded, "", "")
	result.Proof = proof
	if err != nil {
		r.at(j, "unwind", undoWithin)
		r.unwind(ctx, e, order)
		result = r.failed(e, err)
	}
	r.end(ctx, log, e, result)
}

// end journals the result and tells of it.
func (r *Runner) end(ctx context.Context, log *slog.Logger, e protocol.Envelope, result *protocol.Result) {
	if err := r.finish(e, result); err != nil {
		// The disk is full or broken. Without a result the task is resumed at the
		// next start, and steps done twice do no harm.
		log.ErrorContext(ctx, "result not journalled", "err", err)
		return
	}
	log.InfoContext(ctx, "task ended", "outcome", result.Outcome, "code", result.Code, "message", result.Message)
	r.Finished()
}

// steps runs all steps and returns what they prove.
func (r *Runner) steps(ctx context.Context, j *job, e protocol.Envelope, order protocol.Order) (*protocol.Proof, error) {
	steps := r.stepsOf(e)
	proof := blank(e, order)
	for i, step := range steps {
		r.at(j, step.Name, step.Within)
		if err := r.step(ctx, step, e, order, proof); err != nil {
			return nil, &stepError{step, err}
		}
		r.Progress(e.Task, protocol.Progress{Fence: e.Fence, Attempt: e.Attempt, Step: step.Name, Number: i + 1, Of: len(steps)})
	}
	return proof, r.seal(proof)
}

// at notes which step is taken, and by when it must have ended.
func (r *Runner) at(j *job, step string, within time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j.step, j.due = step, r.Clock.Now().Add(within)
}

// blank is the proof that the steps fill.
func blank(e protocol.Envelope, order protocol.Order) *protocol.Proof {
	return &protocol.Proof{
		Node: e.Node, Allocation: e.Allocation, Task: e.Task, Type: e.Type, Fence: e.Fence, UID: order.UID,
		Checks: []string{}, Leftovers: []string{}, Scrubbed: []string{}, Keys: []string{}, Probes: []protocol.ProbeResult{},
	}
}

// seal says when, and signs.
func (r *Runner) seal(proof *protocol.Proof) error {
	proof.At = r.Clock.Now().UTC().Truncate(time.Millisecond)
	if err := r.Sign(proof); err != nil {
		return fmt.Errorf("signing the proof: %w", err)
	}
	return nil
}

func (r *Runner) step(ctx context.Context, step step.Step, e protocol.Envelope, order protocol.Order, proof *protocol.Proof) error {
	ctx, cancel := context.WithTimeout(ctx, step.Within)
	defer cancel()
	if err := r.put(ctx, step, e, order); err != nil || step.Prove == nil {
		return err
	}
	return late(ctx, step, step.Prove(ctx, r.Host, order, proof))
}

// put makes the step's effect, unless it is there.
func (r *Runner) put(ctx context.Context, step step.Step, e protocol.Envelope, order protocol.Order) error {
	done, err := step.Check(ctx, r.Host, order)
	if err != nil || done {
		return late(ctx, step, err)
	}
	err = r.update(e, func(t *journal.Entry) {
		if !slices.Contains(t.Begun, step.Name) {
			t.Begun = append(t.Begun, step.Name)
		}
	})
	if err != nil {
		return err
	}
	failpoint.Hit("agent.step.before_do")
	if err := step.Do(ctx, r.Host, order); err != nil {
		return late(ctx, step, err)
	}
	// A crash here leaves the effect without a record that it is there. The next
	// start looks, finds it, and goes on.
	failpoint.Hit("agent.step.after_do")
	if step.Verify == nil {
		return nil
	}
	return late(ctx, step, step.Verify(ctx, r.Host, order))
}

func late(ctx context.Context, step step.Step, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("not finished in %s: %w", step.Within, err)
	}
	return err
}

// undoWithin bounds all undoing together; what it leaves is found by the release
// that the control plane orders next.
const undoWithin = time.Minute

// unwind takes back what a failed provisioning began, newest first. A release is
// never unwound: what it removed must not come back. Nor is a rotation: a key that
// had to go may have leaked. Nor is the repair of what once stood: undoing it would
// destroy the key of a home that somebody works in.
func (r *Runner) unwind(ctx context.Context, e protocol.Envelope, order protocol.Order) {
	record, ok := r.Journal.Get(e.Allocation)
	if !ok || record.Stood || e.Type != protocol.ProvisionUser || record.Last().Envelope.Task != e.Task {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, undoWithin)
	defer cancel()
	begun := record.Last().Begun
	for _, step := range slices.Backward(r.Steps(e.Type)) {
		if step.Undo == nil || !slices.Contains(begun, step.Name) {
			continue
		}
		if err := step.Undo(ctx, r.Host, order); err != nil {
			r.Log.WarnContext(ctx, "step not undone", "step", step.Name, "task_id", e.Task, "err", err)
		}
	}
}

func (r *Runner) failed(e protocol.Envelope, err error) *protocol.Result {
	result := r.result(e, protocol.Failed, protocol.StepFailed, err.Error())
	if at, ok := errors.AsType[*stepError](err); ok {
		result.Step, result.Code = at.step.Name, at.step.Code
	}
	if code := protocol.CodeOf(err); code != "" {
		result.Code = code
	}
	return result
}

func (r *Runner) finish(e protocol.Envelope, result *protocol.Result) error {
	failpoint.Hit("agent.task.before_result")
	return r.revise(e, func(record *journal.Record) {
		record.Last().Result = result
		record.Stood = record.Stood || e.Type == protocol.ProvisionUser && result.Outcome == protocol.Succeeded
	})
}

// update changes the journal entry of a task that still is the last one.
func (r *Runner) update(e protocol.Envelope, change func(*journal.Entry)) error {
	return r.revise(e, func(record *journal.Record) { change(record.Last()) })
}

// revise is update with the whole record.
func (r *Runner) revise(e protocol.Envelope, change func(*journal.Record)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, ok := r.Journal.Get(e.Allocation)
	if !ok || record.Last().Envelope.Task != e.Task {
		return protocol.Reject(protocol.StaleFence, "overtaken by a newer task")
	}
	change(&record)
	return r.Journal.Put(record)
}

// PendingResults lists the results that the control plane has not taken yet.
func (r *Runner) PendingResults() (results []*protocol.Result) {
	if r.Journal == nil {
		return nil
	}
	for _, record := range r.Journal.All() {
		for _, t := range record.Tasks {
			if t.Result != nil && !t.Told {
				results = append(results, t.Result)
			}
		}
	}
	return results
}

// AckResult notes that the control plane has the result of a task, or wants none.
func (r *Runner) AckResult(id ids.Allocation, task ids.Task) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, ok := r.Journal.Get(id)
	if !ok {
		return nil
	}
	i := slices.IndexFunc(record.Tasks, func(t journal.Entry) bool { return t.Envelope.Task == task })
	if i < 0 || record.Tasks[i].Told {
		return nil
	}
	record.Tasks[i].Told = true
	return r.Journal.Put(record)
}
