package runner_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

func (b *bundle) reset(fence int64, gpu string) protocol.Envelope {
	return b.envelope(ids.Allocation{}, fence, protocol.GPUReset, protocol.GPUResetParams{GPU: gpu, ExpectIdle: true}, []string{gpu})
}

// devices are the GPUs of the node, with a reset and a check that wait.
type devices struct {
	task.Devices

	begun, leave chan struct{}
	calls        atomic.Int32
}

func newDevices(b *bundle) *devices {
	return &devices{Devices: b.host, begun: make(chan struct{}, 10), leave: make(chan struct{})}
}

func (d *devices) wait(ctx context.Context) error {
	d.begun <- struct{}{}
	select {
	case <-d.leave:
		d.calls.Add(1)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *devices) Reset(ctx context.Context, g protocol.GPU) error {
	if err := d.wait(ctx); err != nil {
		return err
	}
	return d.Devices.Reset(ctx, g)
}

func (d *devices) Examine(ctx context.Context, inventory protocol.Inventory, err error) gpu.Examination {
	if d.wait(ctx) != nil {
		return gpu.Examination{}
	}
	return gpu.Examination{Health: []protocol.HealthReport{{Source: "test", Target: inventory.GPUs[0].UUID, Level: protocol.Healthy}}}
}

// A task about the node goes through the same journal, under the node's own fence.
func TestTasksAboutTheNode(t *testing.T) {
	t.Parallel()

	b := setup(t)
	d := newDevices(b)
	b.Devices = d

	id := ids.New[ids.Allocation]()
	b.do(b.provision(id, 1, b.gpus[0]))
	if a := b.Receive(b.sign(b.reset(1, b.gpus[0]))); protocol.CodeOf(a.Rejection) != protocol.SlotBusy {
		t.Errorf("a tenant's GPU: %+v", a)
	}
	first := b.reset(5, b.gpus[1])
	if a := b.Receive(b.sign(first)); a.Rejection != nil {
		t.Fatal(a.Rejection)
	}
	<-d.begun
	if a := b.Receive(b.sign(b.provision(ids.New[ids.Allocation](), 1, b.gpus[1]))); protocol.CodeOf(a.Rejection) != protocol.SlotBusy {
		t.Errorf("handed out while it is reset: %+v", a)
	}
	if seen := b.reportOf(ids.Allocation{}); seen.Phase != "" {
		t.Errorf("the node is no allocation: %+v", seen)
	}
	// A crash in the middle: the journal shows that the step began, and the task is resumed.
	b.stop()
	b.Wait()
	if record, _ := b.Journal.Get(ids.Allocation{}); !slices.Contains(record.Last().Begun, "reset") || record.Last().Result != nil {
		t.Errorf("%+v", record)
	}
	b.devices = d
	b.start(b.Node, b.Host)
	<-d.begun
	close(d.leave)
	r := b.resultOf(first)
	var answer task.GPUResetAnswer
	if err := json.Unmarshal(r.Answer, &answer); err != nil || r.Outcome != protocol.Succeeded || answer.After.UUID != b.gpus[1] || d.calls.Load() != 1 {
		t.Errorf("%+v %s %v, %d resets", r, r.Answer, err, d.calls.Load())
	}
	if a := b.Receive(b.sign(first)); a.Reply == nil || d.calls.Load() != 1 {
		t.Errorf("again: %+v", a)
	}
	if a := b.Receive(b.sign(b.reset(4, b.gpus[1]))); protocol.CodeOf(a.Rejection) != protocol.StaleFence {
		t.Errorf("an older fence: %+v", a)
	}
	update := b.envelope(ids.Allocation{}, 9, protocol.AgentUpdate, protocol.AgentUpdateParams{Version: "1", Digest: digestOfNothing, Size: 1}, nil)
	if a := b.Receive(b.sign(update)); protocol.CodeOf(a.Rejection) != protocol.TypeUnknown {
		t.Errorf("without an updater: %+v", a)
	}
}

const digestOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// A health check changes nothing, but it is heavy: it is not executed twice.
func TestAHealthCheckIsMadeOnce(t *testing.T) {
	t.Parallel()

	b := setup(t)
	d := newDevices(b)
	b.Devices = d
	answered := make(chan *protocol.Result, 2)
	b.Probe = func(_ context.Context, r *protocol.Result) { answered <- r }
	first := b.envelope(ids.Allocation{}, 0, protocol.HealthCheck, protocol.HealthCheckParams{Level: 1}, nil)
	if a := b.Receive(b.sign(first)); a.Rejection != nil {
		t.Fatal(a.Rejection)
	}
	<-d.begun
	if a := b.Receive(b.sign(first)); !a.InHand {
		t.Errorf("%+v", a)
	}
	other := b.envelope(ids.Allocation{}, 0, protocol.HealthCheck, protocol.HealthCheckParams{}, nil)
	if a := b.Receive(b.sign(other)); protocol.CodeOf(a.Rejection) != protocol.SlotBusy {
		t.Errorf("with another task: %+v", a)
	}
	close(d.leave)
	var answer task.HealthCheckAnswer
	if r := <-answered; r.Task != first.Task || json.Unmarshal(r.Answer, &answer) != nil || answer.Level != 1 || len(answer.Health) != 1 {
		t.Errorf("%+v %s", r, r.Answer)
	}
	if a := b.Receive(b.sign(first)); protocol.CodeOf(a.Rejection) != protocol.Replayed || len(d.begun) > 0 {
		t.Errorf("%+v", a)
	}
}

// A rotation changes the login keys, and the other parameters stay.
func TestRotation(t *testing.T) {
	t.Parallel()

	b := setup(t)
	id := ids.New[ids.Allocation]()
	rotate := func(fence int64, keys ...string) protocol.Envelope {
		return b.envelope(id, fence, protocol.RotateKeys, protocol.RotateKeysParams{User: "t-1", UID: 200001, PublicKeys: keys, GPUs: b.gpus[:1]}, b.gpus[:1])
	}
	if a := b.Receive(b.sign(rotate(1, otherKey))); protocol.CodeOf(a.Rejection) != protocol.ParamsInvalid {
		t.Errorf("of no allocation: %+v", a)
	}
	b.do(b.provision(id, 1, b.gpus[0]))
	if r := b.do(rotate(2, otherKey)); r.Outcome != protocol.Succeeded || r.Proof.Type != protocol.RotateKeys {
		t.Errorf("%+v", r)
	}
	if keys := b.simHost().Accounts["t-1"].Keys; len(keys) != 1 || keys[0] != otherKey || b.reportOf(id).Phase != protocol.Ready {
		t.Errorf("%v, %+v", keys, b.reportOf(id))
	}
	// The older provisioning was acknowledged long ago and has expired, and its record is still there.
	for _, r := range b.PendingResults() {
		if err := b.AckResult(r.Allocation, r.Task); err != nil {
			t.Fatal(err)
		}
	}
	b.now = b.now.Add(24 * 3600e9)
	b.do(rotate(3, tenantKey, otherKey))
	b.restart()
	if s := b.reportOf(id); s.Phase != protocol.Ready || s.Fence != 3 {
		t.Errorf("%+v", s)
	}
	b.edit(func(h *sim.Host) {
		h.GPUs[0].Users, h.GPUs[1].Users, h.GPUs[2].Users, h.GPUs[3].Users = nil, nil, nil, nil
	})
	if s := b.reportOf(id); s.Phase != protocol.Broken {
		t.Errorf("the other parameters are lost: %+v", s)
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
