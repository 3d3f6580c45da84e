package runner

import (
	"context"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// queries are the read-only tasks of this process that are executed once. They change nothing, so that the
// journal need not contain them.
type queries struct {
	running ids.Task
	done    []ids.Task // newest last
}

// maxQueries is more than the number of tasks that can be fresh at one time.
const maxQueries = 100

// query executes a read-only task, then sends a complete report and the result. It needs r.mu.
func (r *Runner) query(e protocol.Envelope) (Answer, error) {
	h := task.Of(e.Type)
	switch {
	case !h.Once:
	case r.queries.running == e.Task:
		return Answer{InHand: true}, nil
	case slices.Contains(r.queries.done, e.Task):
		return Answer{}, protocol.Reject(protocol.Replayed, "the check was already made")
	case r.queries.running != ids.Task{}:
		return Answer{}, protocol.Reject(protocol.SlotBusy, "another check is in progress")
	}
	if err := e.Fresh(r.Clock.Now()); err != nil {
		return Answer{}, err
	}
	if h.Once {
		r.queries.running = e.Task
	}
	r.workers.Go(func() {
		ctx, cancel := limited(r.life, h.Within)
		defer cancel()
		found, err := h.Run(ctx, r.queryExecution(ctx, e))
		if h.Once {
			r.endQuery(e.Task)
		}
		r.Probe(r.life, r.resultOf(e, found, err))
	})
	return Answer{}, nil
}

func (r *Runner) endQuery(id ids.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries.running, r.queries.done = ids.Task{}, append(r.queries.done, id)
	if len(r.queries.done) > maxQueries {
		r.queries.done = r.queries.done[1:]
	}
}

// queryExecution writes no journal and no progress.
func (r *Runner) queryExecution(ctx context.Context, e protocol.Envelope) *task.Execution {
	return &task.Execution{
		Backend: r.Backend, Envelope: e, Clock: r.Clock, Log: r.Log, Sign: r.Sign,
		Record:   func() journal.Record { return journal.Record{} },
		Begin:    func(string) error { return ctx.Err() },
		At:       func(string, time.Duration) {},
		Progress: func(string, int, int) {},
	}
}
