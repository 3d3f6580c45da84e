package runner_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/runner"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

func (b *bundle) reset(fence int64, gpu string) protocol.Envelope {
	return b.envelope(ids.Allocation{}, fence, protocol.GPUReset, protocol.GPUResetParams{GPU: gpu, ExpectIdle: true}, []string{gpu})
}

// A task about the node goes through the same journal, under the node's own fence.
func TestTasksAboutTheNode(t *testing.T) {
	t.Parallel()

	b := setup(t)
	begun, leave, resets := make(chan struct{}, 10), make(chan struct{}), 0
	handler := func(ctx context.Context, j runner.Job) (any, error) {
		if err := j.Begin("reset"); err != nil {
			return nil, err
		}
		begun <- struct{}{}
		select {
		case <-leave:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		resets++
		return map[string]bool{"resumed": slices.Contains(j.Begun, "reset")}, nil
	}
	b.Handlers = map[protocol.Type]runner.Handler{protocol.GPUReset: handler}

	id := ids.New[ids.Allocation]()
	b.do(b.provision(id, 1, b.gpus[0]))
	if a := b.Receive(b.sign(b.reset(1, b.gpus[0]))); protocol.CodeOf(a.Refusal) != protocol.SlotBusy {
		t.Errorf("a tenant's GPU: %+v", a)
	}
	first := b.reset(5, b.gpus[1])
	if a := b.Receive(b.sign(first)); a.Refusal != nil {
		t.Fatal(a.Refusal)
	}
	<-begun
	if a := b.Receive(b.sign(b.provision(ids.New[ids.Allocation](), 1, b.gpus[1]))); protocol.CodeOf(a.Refusal) != protocol.SlotBusy {
		t.Errorf("handed out while it is reset: %+v", a)
	}
	if seen := b.seen(ids.Allocation{}); seen.Phase != "" {
		t.Errorf("the node is no allocation: %+v", seen)
	}
	// A crash in the middle: it is resumed, and knows that it began.
	b.stop()
	b.Wait()
	handlers := b.Handlers
	b.handlers = handlers
	b.start(b.Node, b.Host)
	<-begun
	close(leave)
	r := b.resultOf(first)
	var answer struct{ Resumed bool }
	if err := json.Unmarshal(r.Answer, &answer); err != nil || r.Outcome != protocol.Succeeded || !answer.Resumed || resets != 1 {
		t.Errorf("%+v %s %v, %d resets", r, r.Answer, err, resets)
	}
	if a := b.Receive(b.sign(first)); a.Reply == nil || resets != 1 {
		t.Errorf("again: %+v", a)
	}
	if a := b.Receive(b.sign(b.reset(4, b.gpus[1]))); protocol.CodeOf(a.Refusal) != protocol.StaleFence {
		t.Errorf("an older fence: %+v", a)
	}
	update := b.envelope(ids.Allocation{}, 9, protocol.AgentUpdate, protocol.AgentUpdateParams{Version: "1", Digest: digestOfNothing, Size: 1}, nil)
	if a := b.Receive(b.sign(update)); protocol.CodeOf(a.Refusal) != protocol.TypeUnknown {
		t.Errorf("without a handler: %+v", a)
	}
}

const digestOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// A check asks and changes nothing, but is heavy: it is not made twice.
func TestAHealthCheckIsMadeOnce(t *testing.T) {
	t.Parallel()

	b := setup(t)
	begun, leave, answered := make(chan struct{}, 2), make(chan struct{}), make(chan *protocol.Result, 2)
	b.Handlers = map[protocol.Type]runner.Handler{protocol.HealthCheck: func(context.Context, runner.Job) (any, error) {
		begun <- struct{}{}
		<-leave
		return map[string]string{"verdict": "healthy"}, nil
	}}
	b.Probe = func(_ context.Context, r *protocol.Result) { answered <- r }
	first := b.envelope(ids.Allocation{}, 0, protocol.HealthCheck, protocol.HealthCheckParams{Level: 2}, nil)
	if a := b.Receive(b.sign(first)); a.Refusal != nil {
		t.Fatal(a.Refusal)
	}
	<-begun
	if a := b.Receive(b.sign(first)); !a.InHand {
		t.Errorf("%+v", a)
	}
	other := b.envelope(ids.Allocation{}, 0, protocol.HealthCheck, protocol.HealthCheckParams{}, nil)
	if a := b.Receive(b.sign(other)); protocol.CodeOf(a.Refusal) != protocol.SlotBusy {
		t.Errorf("beside another: %+v", a)
	}
	close(leave)
	if r := <-answered; r.Task != first.Task || string(r.Answer) != `{"verdict":"healthy"}` {
		t.Errorf("%+v", r)
	}
	if a := b.Receive(b.sign(first)); protocol.CodeOf(a.Refusal) != protocol.Replayed || len(begun) > 0 {
		t.Errorf("%+v", a)
	}
}

// A rotation changes who logs in, and the rest of the order stays.
func TestRotation(t *testing.T) {
	t.Parallel()

	b := setup(t)
	id := ids.New[ids.Allocation]()
	rotate := func(fence int64, keys ...string) protocol.Envelope {
		return b.envelope(id, fence, protocol.RotateKeys, protocol.RotateKeysParams{User: "t-1", UID: 200001, PublicKeys: keys, GPUs: b.gpus[:1]}, b.gpus[:1])
	}
	if a := b.Receive(b.sign(rotate(1, otherKey))); protocol.CodeOf(a.Refusal) != protocol.ParamsInvalid {
		t.Errorf("of nobody: %+v", a)
	}
	b.do(b.provision(id, 1, b.gpus[0]))
	if r := b.do(rotate(2, otherKey)); r.Outcome != protocol.Succeeded || r.Proof.Type != protocol.RotateKeys {
		t.Errorf("%+v", r)
	}
	if keys := b.world().Accounts["t-1"].Keys; len(keys) != 1 || keys[0] != otherKey || b.seen(id).Phase != protocol.Ready {
		t.Errorf("%v, %+v", keys, b.seen(id))
	}
	// The provisioning below it is long told and expired, and still known.
	for _, r := range b.PendingResults() {
		if err := b.AckResult(r.Allocation, r.Task); err != nil {
			t.Fatal(err)
		}
	}
	b.now = b.now.Add(24 * 3600e9)
	b.do(rotate(3, tenantKey, otherKey))
	b.restart()
	if s := b.seen(id); s.Phase != protocol.Ready || s.Fence != 3 {
		t.Errorf("%+v", s)
	}
	b.edit(func(h *sim.Host) {
		h.GPUs[0].Users, h.GPUs[1].Users, h.GPUs[2].Users, h.GPUs[3].Users = nil, nil, nil, nil
	})
	if s := b.seen(id); s.Phase != protocol.Broken {
		t.Errorf("the rest of the order is forgotten: %+v", s)
	}
	plans, err := b.Plans(t.Context())
	if err != nil || len(plans) != 1 {
		t.Fatal(plans, err)
	}
	if r := b.do(b.revoke(id, 4, b.gpus[0])); r.Outcome != protocol.Succeeded {
		t.Errorf("%+v", r)
	}
}

const otherKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO7GTEiAUSbpB+1bNY6oppo1f/zVpJk5PW/2EqGplolf other"
