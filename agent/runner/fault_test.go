package runner_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// fault is put into one step of one type, and fires once.
type fault struct {
	kind protocol.Type
	step string
	at   func(ctx context.Context) error
	// within replaces the deadline of the step.
	within time.Duration
	fired  atomic.Bool
}

// steps are the steps of the task type with the injected fault.
func (f *fault) steps(t protocol.Type) []step.Step {
	steps := task.Steps(t)
	for i := range steps {
		if t != f.kind || steps[i].Name != f.step {
			continue
		}
		check := steps[i].Check
		if f.within > 0 && !f.fired.Load() { // the next attempt has the time of the step
			steps[i].Within = f.within
		}
		// Where a step reads: all have that, and not all find something to do.
		steps[i].Check = func(ctx context.Context, h step.Host, o protocol.AllocationParams) (bool, error) {
			if f.fired.CompareAndSwap(false, true) {
				if err := f.at(ctx); err != nil {
					return false, err
				}
			}
			return check(ctx, h, o)
		}
	}
	return steps
}

// INV-47: every step of both tasks, with every fault that leaves the process alive.
// In every case the node ends clean and the slot is proved so.
func TestINV47EveryStepWithEveryFault(t *testing.T) {
	t.Parallel()

	for _, kind := range []protocol.Type{protocol.ProvisionUser, protocol.RevokeUser} {
		for _, step := range stepNames(kind) {
			for _, what := range []string{"error", "hang", "duplicate", "newer fence"} {
				t.Run(string(kind)+"/"+step+"/"+what, func(t *testing.T) {
					t.Parallel()
					faulty(t, kind, step, what)
				})
			}
		}
	}
}

func stepNames(kind protocol.Type) (names []string) {
	for _, s := range task.Steps(kind) {
		names = append(names, s.Name)
	}
	return names
}

func faulty(t *testing.T, kind protocol.Type, step, what string) {
	t.Helper()
	b := setup(t)
	reached, leave := make(chan struct{}), make(chan struct{})
	f := &fault{kind: kind, step: step}
	switch what {
	case "error":
		f.at = func(context.Context) error { return errors.New("device broken") }
	case "hang":
		f.within, f.at = 100*time.Millisecond, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	case "duplicate":
		f.at = func(context.Context) error { close(reached); <-leave; return nil }
	case "newer fence":
		f.at = func(ctx context.Context) error { close(reached); <-ctx.Done(); return ctx.Err() }
	}
	b.Steps = f.steps
	id, fence := ids.New[ids.Allocation](), int64(1)
	e := b.provision(id, fence, b.gpus[0])
	if kind == protocol.RevokeUser {
		b.do(e)
		fence = 2
		e = b.revoke(id, fence, b.gpus[0])
	}
	if a := b.Receive(b.sign(e)); a.Rejection != nil {
		t.Fatal(a.Rejection)
	}
	switch what {
	case "error", "hang":
		r := b.resultOf(e)
		if r.Outcome != protocol.Failed || r.Step != step {
			t.Errorf("%+v", r)
		}
		if what == "hang" && !strings.Contains(r.Message, "not finished in") {
			t.Errorf("%+v", r)
		}
		if h := b.simHost(); kind == protocol.ProvisionUser && (len(h.Accounts) > 0 || len(h.GPUs[0].Users) > 0) {
			t.Errorf("not undone: %+v", h.Accounts)
		}
	case "duplicate":
		<-reached
		if a := b.Receive(b.sign(e)); !a.InHand {
			t.Errorf("%+v", a)
		}
		close(leave)
		if r := b.resultOf(e); r.Outcome != protocol.Succeeded {
			t.Errorf("%+v", r)
		}
	case "newer fence":
		<-reached
		newer := b.revoke(id, fence+1, b.gpus[0])
		if r := b.do(newer); r.Outcome != protocol.Succeeded || !r.Proof.Clean(b.gpus[:1]) {
			t.Errorf("%+v", r)
		}
		if r := b.resultOf(e); r.Code != protocol.StaleFence {
			t.Errorf("overtaken: %+v", r)
		}
		fence++
	}
	if !f.fired.Load() {
		t.Fatal("the fault did not fire")
	}
	// And whatever it was, a release ends.
	last := b.revoke(id, fence+1, b.gpus[0])
	r := b.do(last)
	if r.Outcome != protocol.Succeeded || !r.Proof.Clean(b.gpus[:1]) {
		t.Errorf("released: %+v", r)
	}
	if h := b.simHost(); len(h.Accounts)+len(h.Files)+len(h.Processes) > 0 || b.reportOf(id).Phase != protocol.Gone {
		t.Errorf("left %+v", h)
	}
}
