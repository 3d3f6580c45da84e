package runner

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// execute runs one task of the journal to its end, or until ctx ends: a newer task was admitted, or the
// agent stops and resumes the task later.
func (r *Runner) execute(ctx context.Context, j *job, e protocol.Envelope, resumed bool) {
	if record, _ := r.Journal.Get(e.Allocation); record.Find(e.Task) < 0 {
		return // a newer task was admitted
	}
	h := task.Of(e.Type)
	run := h.Run
	if resumed || !r.Clock.Now().Before(e.ExpiresAt) {
		run = h.Resume
	}
	work, cancel := limited(ctx, h.Within)
	defer cancel()
	if h.Within > 0 {
		r.at(j, "", h.Within)
	}
	found, err := run(work, r.execution(j, e))
	if ctx.Err() != nil {
		return
	}
	result := r.resultOf(e, found, err)
	if err != nil && e.Type.Scope() == protocol.ScopeNode {
		r.mu.Lock()
		result.Step = j.step
		r.mu.Unlock()
	}
	r.end(ctx, r.Log.With("task_id", e.Task, "fence", e.Fence, "type", e.Type), e, result)
}

func limited(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	if within == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, within)
}

// execution connects a handler with the journal and with the state of the worker.
func (r *Runner) execution(j *job, e protocol.Envelope) *task.Execution {
	return &task.Execution{
		Backend: r.Backend, Envelope: e, Clock: r.Clock, Log: r.Log, Sign: r.Sign,
		Record: func() journal.Record {
			record, _ := r.Journal.Get(e.Allocation)
			return record
		},
		Begin: func(step string) error { return r.begun(e, step) },
		At:    func(step string, within time.Duration) { r.at(j, step, within) },
		Progress: func(step string, number, of int) {
			r.Progress(e.Task, protocol.Progress{Fence: e.Fence, Attempt: e.Attempt, Step: step, Number: number, Of: of})
		},
	}
}

// at notes which step a worker executes and when the step must have ended.
func (r *Runner) at(j *job, step string, within time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j.step, j.due = step, r.Clock.Now().Add(within)
}

// begun writes to the journal that a step of a task begins.
func (r *Runner) begun(e protocol.Envelope, step string) error {
	return r.revise(e, func(record *journal.Record) {
		if last := record.Last(); !slices.Contains(last.Begun, step) {
			if len(last.BegunAt) == len(last.Begun) {
				last.BegunAt = append(last.BegunAt, r.Clock.Now().UTC().Truncate(time.Microsecond))
			}
			last.Begun = append(last.Begun, step)
		}
	})
}

// end writes the result to the journal and reports it.
func (r *Runner) end(ctx context.Context, log *slog.Logger, e protocol.Envelope, result *protocol.Result) {
	if err := r.finish(e, result); err != nil {
		// The disk is full or broken. Without a result the next start resumes the task, and each step
		// has the same effect as before.
		log.ErrorContext(ctx, "result not journalled", "err", err)
		return
	}
	log.InfoContext(ctx, "task ended", "outcome", result.Outcome, "code", result.Code, "message", result.Message)
	r.Finished()
}

func (r *Runner) finish(e protocol.Envelope, result *protocol.Result) error {
	failpoint.Hit("agent.task.before_result")
	return r.revise(e, func(record *journal.Record) {
		record.Last().Result = result
		record.Provisioned = record.Provisioned || e.Type.Effect() == protocol.Provisions && result.Outcome == protocol.Succeeded
	})
}

// revise changes the record of a task that is still the last one of its allocation.
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

// resultOf converts what a handler returned.
func (r *Runner) resultOf(e protocol.Envelope, found task.Result, err error) *protocol.Result {
	result := r.result(e, protocol.Succeeded, "", "")
	result.Proof = found.Proof
	if err == nil && found.Answer != nil {
		result.Answer, err = json.Marshal(found.Answer)
	}
	if err != nil {
		return r.failed(e, err)
	}
	return result
}

func (r *Runner) failed(e protocol.Envelope, err error) *protocol.Result {
	result := r.result(e, protocol.Failed, protocol.StepFailed, err.Error())
	if at, ok := errors.AsType[*task.StepError](err); ok {
		result.Step, result.Code = at.Step.Name, at.Step.Code
	}
	if code := protocol.CodeOf(err); code != "" {
		result.Code = code
	}
	return result
}

func (r *Runner) result(e protocol.Envelope, o protocol.Outcome, code protocol.RejectReason, message string) *protocol.Result {
	return &protocol.Result{
		Task: e.Task, Allocation: e.Allocation, Fence: e.Fence, Attempt: e.Attempt, Generation: e.Generation,
		Outcome: o, Code: code, Message: message, FinishedAt: r.Clock.Now().Truncate(time.Millisecond),
	}
}

// rejectedResult returns the result of a task that was not admitted. An error without a code is a failure
// of the node, such as a full disk, and the control plane may send the task again.
func (r *Runner) rejectedResult(e protocol.Envelope, err error) *protocol.Result {
	code := protocol.CodeOf(err)
	if code == "" {
		return r.result(e, protocol.Failed, protocol.StepFailed, err.Error())
	}
	return r.result(e, protocol.Rejected, code, err.Error())
}

// PendingResults lists the results that the control plane has not acknowledged.
func (r *Runner) PendingResults() (results []*protocol.Result) {
	if r.Journal == nil {
		return nil
	}
	for _, record := range r.Journal.All() {
		for _, t := range record.Tasks {
			if t.Result != nil && !t.Acked {
				results = append(results, t.Result)
			}
		}
	}
	return results
}

// AckResult notes that the control plane has the result of a task, or does not need it.
func (r *Runner) AckResult(id ids.Allocation, task ids.Task) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, ok := r.Journal.Get(id)
	if !ok {
		return nil
	}
	i := record.Find(task)
	if i < 0 || record.Tasks[i].Acked {
		return nil
	}
	record.Tasks[i].Acked = true
	return r.Journal.Put(record)
}
