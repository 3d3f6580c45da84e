package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/agent/client"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// outbox contains the messages of the node besides its poll. One goroutine sends them and ends when none
// is left, so an idle agent has no goroutine for it.
type outbox struct {
	busy    bool
	life    context.Context //nolint:containedctx // set by the first beat, ends with the agent
	done    chan struct{}   // closed when the goroutine has ended
	retryAt time.Time       // after a failure
	wait    backoff

	replies  []*protocol.Result // to tasks that were not acted on; lost in a crash
	results  bool               // the journal may contain results that are not acknowledged
	steps    map[ids.Task]protocol.Progress
	reportAt time.Time
	renewing bool

	keysAt   time.Time // when access keys are requested next
	keysWait backoff
	keysBusy bool // a request for access keys is in progress
}

// maxReplies limits the memory that a server can use by sending tasks that the agent rejects.
const maxReplies = 100

func (n *node) changed() {
	n.enqueue(func(t *outbox) { t.reportAt = time.Time{} })
}

func (n *node) finished() {
	n.enqueue(func(t *outbox) { t.results, t.reportAt = true, time.Time{} })
}

func (n *node) progress(task ids.Task, p protocol.Progress) {
	n.record.step(task, p.Step, n.Clock.Now())
	n.enqueue(func(t *outbox) {
		if t.steps == nil {
			t.steps = map[ids.Task]protocol.Progress{}
		}
		t.steps[task] = p // an older step adds nothing
	})
}

func (n *node) reply(r *protocol.Result) {
	n.enqueue(func(t *outbox) {
		if len(t.replies) < maxReplies {
			t.replies = append(t.replies, r)
		}
	})
}

// probe sends a report before the result, so that the client of the probe finds it.
func (n *node) probe(ctx context.Context, r *protocol.Result) {
	if err := n.report(ctx); err != nil {
		n.log.WarnContext(ctx, "probe failed", "err", err)
		return
	}
	n.reply(r)
}

// enqueue adds a message and starts the sender if none runs.
func (n *node) enqueue(note func(*outbox)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	note(&n.outbox)
	n.startTalking(n.Clock.Now())
}

// startTalking needs n.mu.
func (n *node) startTalking(now time.Time) {
	t := &n.outbox
	if t.life == nil || t.life.Err() != nil || t.busy || n.cut || now.Before(t.retryAt) || !n.pending(now) {
		return
	}
	t.busy, t.done = true, make(chan struct{})
	go n.runOutbox(t.life, t.done)
}

func (n *node) pending(now time.Time) bool {
	t := &n.outbox
	return len(t.replies) > 0 || t.results || len(t.steps) > 0 || t.renewing || !now.Before(t.reportAt) || !t.keysBusy && !now.Before(t.keysAt)
}

func (n *node) runOutbox(ctx context.Context, done chan struct{}) {
	defer close(done)
	for {
		err := n.flush(ctx)
		n.mu.Lock()
		now := n.Clock.Now()
		if err != nil {
			delay := n.outbox.wait.next()
			n.outbox.retryAt = now.Add(delay) // a beat starts it again
			if ctx.Err() == nil {
				n.log.WarnContext(ctx, "control plane not reached", "err", err, "again_in", delay)
			}
		} else {
			n.outbox.wait.reset()
		}
		if err != nil || ctx.Err() != nil || n.cut || !n.pending(now) {
			n.outbox.busy = false
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
	}
}

// drainOutbox returns when the sender has ended.
func (n *node) drainOutbox() {
	n.mu.Lock()
	done := n.outbox.done
	n.mu.Unlock()
	if done != nil {
		<-done
	}
	n.client.Load().Release()
}

// flush sends the pending messages. Results are sent before the report.
func (n *node) flush(ctx context.Context) error {
	for _, say := range []func(context.Context) error{n.sendPhases, n.requestKeys, n.sendReplies, n.sendResults, n.sendReport, n.sendRenewal} {
		if err := say(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) sendPhases(ctx context.Context) error {
	n.mu.Lock()
	steps := n.outbox.steps
	n.outbox.steps = nil
	n.mu.Unlock()
	for task, p := range steps {
		// A lost progress message is only displayed, and the next one replaces it.
		if err := n.client.Load().Step(ctx, n.id(), task, p); err != nil && !final(err) {
			return err
		}
	}
	return nil
}

func (n *node) sendReplies(ctx context.Context) error {
	for {
		n.mu.Lock()
		if len(n.outbox.replies) == 0 {
			n.mu.Unlock()
			return nil
		}
		r := n.outbox.replies[0]
		n.mu.Unlock()
		if err := n.client.Load().Result(ctx, n.id(), r); err != nil && !final(err) {
			return err
		}
		n.mu.Lock()
		n.outbox.replies = n.outbox.replies[1:]
		n.mu.Unlock()
	}
}

func (n *node) sendResults(ctx context.Context) error {
	n.mu.Lock()
	due := n.outbox.results
	n.outbox.results = false
	n.mu.Unlock()
	if !due {
		return nil
	}
	if err := n.ackResults(ctx); err != nil {
		n.mu.Lock()
		n.outbox.results = true
		n.mu.Unlock()
		return err
	}
	return nil
}

func (n *node) ackResults(ctx context.Context) error {
	untold, err := n.worker.PendingResults(ctx)
	if err != nil {
		return fmt.Errorf("reading results: %w", err)
	}
	for _, r := range untold {
		err := n.client.Load().Result(ctx, n.id(), r)
		if err != nil && !final(err) {
			return err
		}
		// After a crash here the result is sent again, and the server accepts it by comparison.
		failpoint.Hit("agent.task.after_result")
		if err != nil {
			n.log.WarnContext(ctx, "result not requested", "task_id", r.Task, "err", err)
		}
		n.record.ended(r)
		if err := n.worker.AckResult(ctx, r.Allocation, r.Task); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) sendReport(ctx context.Context) error {
	n.mu.Lock()
	now := n.Clock.Now()
	due := !now.Before(n.outbox.reportAt)
	if due {
		n.outbox.reportAt = now.Add(n.reportEvery())
	}
	n.mu.Unlock()
	if !due {
		return nil
	}
	err := n.report(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch next := now.Add(n.reportEvery()); {
	case err != nil:
		n.outbox.reportAt = time.Time{}
	case next.Before(n.outbox.reportAt): // the last reply has shortened the interval
		n.outbox.reportAt = next
	}
	return err
}

func (n *node) sendRenewal(ctx context.Context) error {
	n.mu.Lock()
	due := n.outbox.renewing
	n.outbox.renewing = false
	n.mu.Unlock()
	if !due {
		return nil
	}
	if err := n.renew(ctx); err != nil {
		return err // a heartbeat requests it again
	}
	n.log.InfoContext(ctx, "certificate renewed", "not_after", n.identity.Load().NotAfter())
	return n.updateTrust(ctx)
}

// final reports whether the server will reject this message however often it is sent.
func final(err error) bool {
	var p *client.ProblemError
	if !errors.As(err, &p) {
		return false
	}
	switch p.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}
