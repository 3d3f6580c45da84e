package runner_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/runner"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

const tenantKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl tenant"

var t0 = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// bundle is a simulated node with its runner, and the control plane's key.
type bundle struct {
	*runner.Runner

	t   testing.TB
	dir string
	// anchor lies outside of dir, as memory does.
	anchor  string
	devices task.Devices // of the next start
	host    *sim.Driver
	key     ed25519.PrivateKey
	proof   ed25519.PrivateKey
	now     time.Time
	gpus    []string // sorted
	stop    context.CancelFunc
	ended   chan struct{} // receives when a worker may have ended
}

func setup(t testing.TB) *bundle {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, proof, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{t: t, dir: t.TempDir(), key: key, proof: proof, now: t0}
	node := ids.New[ids.Node]()
	if b.host, err = sim.Open(b.dir, node, "t4-4", "gpu-01"); err != nil {
		t.Fatal(err)
	}
	if b.gpus, err = sim.UUIDs(node, "t4-4"); err != nil {
		t.Fatal(err)
	}
	slices.Sort(b.gpus)
	b.start(node, b.host)
	return b
}

// start starts a new process on the files of the old one.
func (b *bundle) start(node ids.Node, host step.Host) {
	b.t.Helper()
	j, err := journal.Open(journal.Options{Dir: filepath.Join(b.dir, "journal"), Node: node, Now: b.now, Anchor: b.anchor})
	if errors.Is(err, journal.ErrLost) {
		j = nil
	} else if err != nil {
		b.t.Fatal(err)
	}
	public := map[string][]byte{"0001": b.key.Public().(ed25519.PublicKey)}
	ctx, stop := context.WithCancel(context.Background())
	b.stop, b.ended = stop, make(chan struct{}, 100)
	note := func() {
		select {
		case b.ended <- struct{}{}:
		default:
		}
	}
	b.Runner = &runner.Runner{
		Node: node, Keys: func() map[string][]byte { return public }, Journal: j, Backend: task.Backend{Host: host, Devices: b.devices},
		Clock: clock.At(func() time.Time { return b.now }), Log: slog.New(slog.DiscardHandler),
		Sign:    func(p *protocol.Proof) error { return p.Sign(b.proof) },
		Changed: note, Progress: func(ids.Task, protocol.Progress) { note() }, Finished: note, Probe: func(context.Context, *protocol.Result) {},
	}
	r := b.Runner
	r.Start(ctx)
	b.t.Cleanup(func() { stop(); r.Wait() })
}

// restart is a kill and a start: whatever was under way is cut off.
func (b *bundle) restart() {
	b.t.Helper()
	b.stop()
	b.Wait()
	b.start(b.Node, b.Host)
}

func (b *bundle) provision(a ids.Allocation, fence int64, gpus ...string) protocol.Envelope {
	return b.envelope(a, fence, protocol.ProvisionUser, protocol.ProvisionUserParams{User: "t-1", UID: 200001, PublicKeys: []string{tenantKey}, GPUs: gpus}, gpus)
}

func (b *bundle) revoke(a ids.Allocation, fence int64, gpus ...string) protocol.Envelope {
	return b.envelope(a, fence, protocol.RevokeUser, protocol.RevokeUserParams{User: "t-1", UID: 200001, GPUs: gpus, Mode: "purge"}, gpus)
}

func (b *bundle) envelope(a ids.Allocation, fence int64, kind protocol.Type, params any, gpus []string) protocol.Envelope {
	b.t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	return protocol.Envelope{
		V: protocol.Version, Kid: "0001", Task: ids.New[ids.Task](), Node: b.Node, Allocation: a, Slots: gpus, Generation: 1, Fence: fence, Attempt: 1,
		Type: kind, Params: text, SpecHash: hex.EncodeToString([]byte(kind)), NotBefore: b.now.Add(-protocol.Backdate), ExpiresAt: b.now.Add(10 * time.Minute), Nonce: rand.Text(),
	}
}

func (b *bundle) sign(e protocol.Envelope) protocol.Signed {
	b.t.Helper()
	body, err := e.Canonical()
	if err != nil {
		b.t.Fatal(err)
	}
	return protocol.Signed{Body: body, Signature: ed25519.Sign(b.key, body)}
}

// do brings a task, waits for its end and returns the result.
func (b *bundle) do(e protocol.Envelope) *protocol.Result {
	b.t.Helper()
	if a := b.Receive(b.sign(e)); a.Rejection != nil || a.Reply != nil {
		b.t.Fatalf("%s at fence %d: %+v", e.Type, e.Fence, a)
	}
	return b.resultOf(e)
}

func (b *bundle) resultOf(e protocol.Envelope) *protocol.Result {
	b.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		record, ok := b.Journal.Get(e.Allocation)
		for _, t := range record.Tasks {
			if ok && t.Envelope.Task == e.Task && t.Result != nil {
				return t.Result
			}
		}
		select {
		case <-b.ended:
		case <-deadline:
			b.t.Fatalf("task %s at fence %d did not end", e.Type, e.Fence)
		}
	}
}

// until checks again at each sign of life, and every few milliseconds: a step that
// only begins gives none.
func (b *bundle) until(what string, ok func() bool) {
	b.t.Helper()
	late, again := time.After(10*time.Second), time.NewTicker(2*time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-b.ended:
		case <-again.C:
		case <-late:
			b.t.Fatalf("not observed: %s", what)
		}
	}
}

// reportOf returns the part of a report about the allocation.
func (b *bundle) reportOf(a ids.Allocation) protocol.AllocationReport {
	b.t.Helper()
	state, err := b.host.Inspect(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, s := range b.Observe(state) {
		if s.Allocation == a {
			return s
		}
	}
	return protocol.AllocationReport{}
}

func (b *bundle) simHost() *sim.Host {
	b.t.Helper()
	h, err := sim.Read(sim.Path(b.dir))
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

func (b *bundle) edit(change func(*sim.Host)) {
	b.t.Helper()
	err := sim.Edit(sim.Path(b.dir), func(h *sim.Host) error {
		change(h)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}
