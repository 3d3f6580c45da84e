package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/protocol"
)

// StepError is a failure with the step that failed.
type StepError struct {
	Step  step.Step
	Cause error
}

func (e *StepError) Error() string { return e.Step.Name + ": " + e.Cause.Error() }
func (e *StepError) Unwrap() error { return e.Cause }

// runSteps executes the steps of the task and returns their signed proof.
func runSteps(ctx context.Context, x *Execution) (Result, error) {
	params, err := x.params()
	if err != nil {
		return Result{}, err
	}
	proof, steps := x.blankProof(params), x.StepsOf(x.Record(), x.Envelope.Type)
	for i, s := range steps {
		if err := x.step(ctx, s, params, proof); err != nil && (!isStorage(s) || !x.Record().Provisioned) {
			return Result{}, err
		} else if err != nil {
			// As in Repair: an allocation that a tenant has is not broken without its storage.
			x.Log.WarnContext(ctx, "stored objects not mounted", "task_id", x.Envelope.Task, "err", err)
		}
		x.Progress(s.Name, i+1, len(steps))
	}
	proof.At = x.Clock.Now().UTC().Truncate(time.Millisecond)
	if err := x.Sign(proof); err != nil {
		return Result{}, fmt.Errorf("signing the proof: %w", err)
	}
	return Result{Proof: proof}, nil
}

// unlessExpired rejects a task that expired before it was executed. The control plane has stopped waiting
// for it and may have decided otherwise.
func unlessExpired(run func(context.Context, *Execution) (Result, error)) func(context.Context, *Execution) (Result, error) {
	return func(ctx context.Context, x *Execution) (Result, error) {
		if !x.Clock.Now().Before(x.Envelope.ExpiresAt) {
			return Result{}, protocol.Reject(protocol.Expired, "interrupted, and expired before it was resumed")
		}
		return run(ctx, x)
	}
}

// params returns the parameters of the task, with those of the provisioning that it amends.
func (x *Execution) params() (protocol.AllocationParams, error) {
	record := x.Record()
	i := record.Find(x.Envelope.Task)
	if i < 0 {
		return x.Envelope.AllocationParams()
	}
	return record.AllocationParamsAt(i)
}

// blankProof returns the proof that the steps complete.
func (x *Execution) blankProof(params protocol.AllocationParams) *protocol.Proof {
	e := x.Envelope
	return &protocol.Proof{
		Node: e.Node, Allocation: e.Allocation, Task: e.Task, Type: e.Type, Fence: e.Fence, UID: params.UID,
		Checks: []string{}, Leftovers: []string{}, Scrubbed: []string{}, Keys: []string{}, Probes: []protocol.ProbeResult{},
	}
}

// repeat executes steps outside a task. Their proof is dropped, and the result in the journal stays.
func (x *Execution) repeat(ctx context.Context, steps []step.Step) error {
	params, err := x.params()
	if err != nil {
		return err
	}
	for _, s := range steps {
		if err := x.step(ctx, s, params, x.blankProof(params)); err != nil {
			return err
		}
	}
	return nil
}

// step runs one step within its time limit. A program of the host OS that hangs would otherwise block all later tasks of
// the allocation.
func (x *Execution) step(ctx context.Context, s step.Step, params protocol.AllocationParams, proof *protocol.Proof) error {
	x.At(s.Name, s.Within)
	ctx, cancel := context.WithTimeout(ctx, s.Within)
	defer cancel()
	err := x.apply(ctx, s, params)
	if err == nil && s.Prove != nil {
		err = s.Prove(ctx, x.Host, params, proof)
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("not finished in %s: %w", s.Within, err)
	}
	if err != nil {
		return &StepError{s, err}
	}
	return nil
}

// apply makes the effect of the step, unless it is present.
func (x *Execution) apply(ctx context.Context, s step.Step, params protocol.AllocationParams) error {
	done, err := s.Check(ctx, x.Host, params)
	if err != nil || done {
		return err
	}
	if err := x.Begin(s.Name); err != nil {
		return err
	}
	failpoint.Hit("agent.step.before_do")
	if err := s.Do(ctx, x.Host, params); err != nil {
		return err
	}
	// A crash here leaves the effect without a result. The next start executes Check, finds the effect, and
	// continues with the next step.
	failpoint.Hit("agent.step.after_do")
	if s.Verify == nil {
		return nil
	}
	return s.Verify(ctx, x.Host, params)
}

// begin is Begin for a task that does not consist of steps of agent/step. number counts from 1.
func (x *Execution) begin(step string, number int, within time.Duration) error {
	x.At(step, within)
	x.Progress(step, number, number)
	err := x.Begin(step)
	failpoint.Hit("agent.node.after_begin")
	return err
}

// undoWithin limits the undoing of all steps together. The release that the control plane queues next
// removes what is left.
const undoWithin = time.Minute

// undo reverts the steps that the task has begun, the latest first.
func undo(ctx context.Context, x *Execution) {
	x.At("unwind", undoWithin)
	record := x.Record()
	params, err := x.params()
	if err != nil || len(record.Tasks) == 0 || record.Provisioned || record.Last().Envelope.Task != x.Envelope.Task {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, undoWithin)
	defer cancel()
	begun := record.Last().Begun
	for _, s := range slices.Backward(x.steps(x.Envelope.Type)) {
		if s.Undo == nil || !slices.Contains(begun, s.Name) {
			continue
		}
		if err := s.Undo(ctx, x.Host, params); err != nil {
			x.Log.WarnContext(ctx, "undo step", "step", s.Name, "task_id", x.Envelope.Task, "err", err)
		}
	}
}
