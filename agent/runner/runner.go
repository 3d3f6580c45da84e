// Package runner admits tasks and executes them. It owns their sequence, limits, resumption and results: one
// worker per allocation, and allocations in parallel. agent/task owns what a task does.
//
// The runner rejects a task before it acts if signature, form, address, time, type, parameters or fence are
// wrong, and it executes only tasks that are in the journal. It answers a task that ended from the journal.
package runner

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Runner is the worker of one node. Its fields are set before Start.
type Runner struct {
	Node ids.Node
	Keys func() map[string][]byte // the task keys that are valid now
	// Journal is nil if it is lost. Then the runner executes only read-only tasks.
	Journal *journal.Journal
	// Backend contains the parts of the node that handlers change.
	task.Backend

	Clock clock.Clock
	Log   *slog.Logger
	// Sign makes a proof count as this node's.
	Sign func(*protocol.Proof) error

	Changed  func()                            // the state of the node has changed; must not block
	Progress func(ids.Task, protocol.Progress) // must not block
	Finished func()                            // a result waits in the journal; must not block
	// Probe sends a complete report, then the result.
	Probe func(context.Context, *protocol.Result)

	life    context.Context //nolint:containedctx // of the workers, which outlive the poll that brought the task
	workers sync.WaitGroup

	mu      sync.Mutex
	jobs    map[ids.Allocation]*job // the zero id: about the node
	lost    string                  // why the journal is not trusted any more
	queries queries
}

// job is the execution of one task.
type job struct {
	task   ids.Task
	cancel context.CancelFunc
	done   chan struct{}
	step   string    // guarded by Runner.mu, as is due
	due    time.Time // when the step must have ended
}

// Answer is the response to a task that the network process delivered.
type Answer struct {
	Task ids.Task // zero if the envelope is not valid
	// Reply is a rejection, or the result that the journal contains. The network process sends it at
	// once.
	Reply *protocol.Result
	// Rejection is the reason why the task is not executed.
	Rejection error
	// InHand means that the same task is already being executed.
	InHand bool
}

// Start resumes what a crash interrupted. ctx ends all work; what it interrupts is
// resumed by the next Start.
func (r *Runner) Start(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.life, r.jobs = ctx, map[ids.Allocation]*job{}
	if r.Journal == nil {
		return
	}
	for _, record := range r.Journal.All() {
		if last := record.Last(); last.Result == nil && r.Supported(last.Envelope.Type) == nil {
			r.Log.InfoContext(ctx, "task resumed", "task_id", last.Envelope.Task, "fence", last.Envelope.Fence)
			r.work(last.Envelope, true) //nolint:contextcheck // work outlives calls; it lives as long as the runner
		}
	}
}

// Wait returns when all workers have stopped.
func (r *Runner) Wait() { r.workers.Wait() }

// Receive verifies a task, writes it to the journal and starts its execution, or rejects it.
func (r *Runner) Receive(s protocol.Signed) Answer {
	e, err := protocol.Open(s, r.Keys())
	if err != nil {
		return Answer{Rejection: err}
	}
	if e.Node != r.Node {
		// No answer: the control plane would store the result with the task of another node.
		return Answer{Rejection: protocol.Reject(protocol.Misaddressed, "the task is for node %s", e.Node)}
	}
	a, err := r.admit(e, digestOf(s.Body))
	a.Task = e.Task
	if err != nil {
		a.Rejection, a.Reply = err, r.rejectedResult(e, err)
	}
	return a
}

// admit checks and journals a task under the lock of the runner. Two tasks of one allocation that arrive together are
// therefore compared by their fences.
func (r *Runner) admit(e protocol.Envelope, digest string) (Answer, error) {
	params, err := e.AllocationParams()
	if err != nil {
		return Answer{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.Supported(e.Type); err != nil {
		return Answer{}, err
	}
	switch {
	case e.Type.ReadOnly():
		return r.query(e)
	case r.lost != "":
		return Answer{}, protocol.Reject(protocol.JournalLost, "%s", r.lost)
	case r.Journal == nil:
		return Answer{}, protocol.Reject(protocol.JournalLost, "%v", journal.ErrLost)
	}

	record, known := r.Journal.Get(e.Allocation)
	if known {
		// The journal is read before the age of the task is checked, because the control plane may
		// request a result long after the task has expired.
		if i := record.Find(e.Task); i >= 0 {
			return r.again(record.Tasks[i], digest)
		}
		if err := Admit(record.Last(), e, digest); err != nil {
			return Answer{}, err
		}
	}
	if err := e.Fresh(r.Clock.Now()); err != nil {
		return Answer{}, err
	}
	if since := r.Journal.Since(); e.SignedBefore(since) {
		return Answer{}, protocol.Reject(protocol.Replayed, "signed before %s, since when this node knows all its tasks: it may already be done. If the clock was ahead, enrol the node again", since.UTC().Format(time.RFC3339))
	}
	if err := r.fits(record, e, params); err != nil {
		return Answer{}, err
	}
	return Answer{}, r.accept(record, e, digest)
}

// fits rejects a task that the state of the node does not allow.
func (r *Runner) fits(record journal.Record, e protocol.Envelope, params protocol.AllocationParams) error {
	check := task.Of(e.Type).Check
	if check == nil {
		return nil
	}
	others := slices.DeleteFunc(r.Journal.All(), func(other journal.Record) bool { return other.Allocation == e.Allocation })
	return check(task.Admission{Envelope: e, Params: params, Record: record, Others: others})
}

// again answers a task that was admitted before.
func (r *Runner) again(t journal.Entry, digest string) (Answer, error) {
	switch {
	case t.Digest != digest:
		return Answer{}, protocol.Reject(protocol.FenceConflict, "task %s was admitted with other content", t.Envelope.Task)
	case t.Result == nil:
		return Answer{InHand: true}, nil
	}
	return Answer{Reply: t.Result}, nil
}

// accept writes the task and its fence to the journal before a worker acts.
func (r *Runner) accept(record journal.Record, e protocol.Envelope, digest string) error {
	now := r.Clock.Now()
	record.Allocation, record.Stopped = e.Allocation, false
	// An expired task cannot be sent again. A task that is still valid is answered from the
	// journal.
	needed := neededBy(record, e)
	record.Tasks = slices.DeleteFunc(record.Tasks, func(t journal.Entry) bool {
		return t.Result != nil && t.Acked && t.Envelope.ExpiresAt.Before(now) && t.Envelope.Task != needed
	})
	for i := range record.Tasks {
		if t := &record.Tasks[i]; t.Result == nil {
			t.Result = r.result(t.Envelope, protocol.Failed, protocol.StaleFence, "overtaken by a newer task")
			t.Acked = true // the control plane has superseded it and accepts no result
		}
	}
	record.Tasks = append(record.Tasks, journal.Entry{Envelope: e, Digest: digest})
	record.Provisioned = record.Provisioned && e.Type.Effect() != protocol.Releases

	failpoint.Hit("agent.task.before_journal")
	if err := r.Journal.Put(record); err != nil {
		return fmt.Errorf("admitting task: %w", err)
	}
	// A crash from here on leaves the task in the journal, and Start resumes it.
	failpoint.Hit("agent.task.after_journal")
	r.work(e, false)
	r.Changed()
	return nil
}

// neededBy returns the task that the next one amends, or zero.
func neededBy(record journal.Record, next protocol.Envelope) ids.Task {
	base := record.Provisioning()
	if next.Type.Effect() != protocol.Amends || base == nil {
		return ids.Task{}
	}
	return base.Envelope.Task
}

// work starts the worker of a task after the worker of the superseded task has stopped.
func (r *Runner) work(e protocol.Envelope, resumed bool) {
	r.begin(e.Allocation, e.Task, func(ctx context.Context, j *job) { r.execute(ctx, j, e, resumed) })
}

// begin needs r.mu.
func (r *Runner) begin(id ids.Allocation, task ids.Task, do func(context.Context, *job)) {
	ctx, cancel := context.WithCancel(r.life)
	j := &job{task: task, cancel: cancel, done: make(chan struct{})}
	before := r.jobs[id]
	r.jobs[id] = j
	if before != nil {
		before.cancel()
	}
	r.workers.Go(func() {
		defer close(j.done)
		defer cancel()
		if before != nil {
			<-before.done
		}
		do(ctx, j)

		r.mu.Lock()
		if r.jobs[id] == j {
			delete(r.jobs, id)
		}
		r.mu.Unlock()
		r.Changed()
	})
}

// MarkLost rejects all tasks from now on: the journal is an older copy.
func (r *Runner) MarkLost(why string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = why
	if r.Journal == nil {
		return nil
	}
	return r.Journal.MarkLost(why)
}
