package helper_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/agent/storagekey"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

const tenantKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl tenant"

// bundle is a simulated node with its helper behind a socket, and the control plane's key.
type bundle struct {
	t      testing.TB
	dir    string
	node   ids.Node
	key    ed25519.PrivateKey // signs tasks
	states ed25519.PrivateKey // signs responses to reports
	gpus   []string
	log    *slog.Logger
	socket string
	uid    int
	now    func() time.Time

	local *helper.Local
	stop  func()
}

func setup(t testing.TB) *bundle {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, states, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{t: t, dir: t.TempDir(), node: ids.New[ids.Node](), key: key, states: states, uid: os.Getuid(), log: slog.New(slog.DiscardHandler), now: clock.Clock{}.Now}
	b.socket = filepath.Join(b.dir, "helper.sock")
	if b.gpus, err = sim.UUIDs(b.node, "t4-4"); err != nil {
		t.Fatal(err)
	}
	slices.Sort(b.gpus)
	belief, err := helper.FirstTrustState(b.journal(), b.node, protocol.Trust{TaskKeys: b.public(), StatementKeys: b.statementKeys()})
	if err != nil {
		t.Fatal(err)
	}
	if err := belief.Save(b.journal()); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bundle) journal() string { return filepath.Join(b.dir, "journal") }

func (b *bundle) public() map[string][]byte {
	return map[string][]byte{"0001": b.key.Public().(ed25519.PublicKey)}
}

func (b *bundle) statementKeys() map[string][]byte {
	return map[string][]byte{"0001": b.states.Public().(ed25519.PublicKey)}
}

// start begins a life of the acting half.
// later makes the clock of the helper run ahead by the returned duration. The helper reads it at all times.
func (b *bundle) later() *atomic.Int64 {
	offset, now := &atomic.Int64{}, b.now
	b.now = func() time.Time { return now().Add(time.Duration(offset.Load())) }
	return offset
}

func (b *bundle) start() {
	b.t.Helper()
	host, err := sim.Open(b.dir, b.node, "t4-4", "gpu-01")
	if err != nil {
		b.t.Fatal(err)
	}
	host.StorageKeys = &storagekey.Store{}
	server := &helper.Server{UID: b.uid, Log: b.log}
	b.local, err = helper.Open(b.t.Context(), helper.Options{
		Dir: b.journal(), Driver: host, Host: host, Hostname: "gpu-01", Version: "test", StorageKeys: host.StorageKeys,
		Notes: server.Notes(), Log: b.log, Clock: clock.At(b.now),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	server.Local = b.local
	_ = os.Remove(b.socket)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: b.socket, Net: "unix"})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.local.Start(ctx)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
		b.local.Wait()
	})
	b.t.Cleanup(b.stop)
}

// heard are the messages that a client got.
type heard struct {
	changed, finished chan struct{}
	keys              chan struct{}
	steps             chan protocol.Progress
	probes            chan *protocol.Result
	met               chan helper.Hello
}

// connect is the half that speaks.
func (b *bundle) connect() (*helper.Client, heard) {
	b.t.Helper()
	h := heard{
		changed: make(chan struct{}, 1000), finished: make(chan struct{}, 1000), steps: make(chan protocol.Progress, 1000),
		probes: make(chan *protocol.Result, 10), met: make(chan helper.Hello, 100), keys: make(chan struct{}, 1000),
	}
	c := &helper.Client{
		Path: b.socket, UID: os.Getuid(), Log: b.log,
		Met: func(_ context.Context, hello helper.Hello) { h.met <- hello },
		Notes: helper.Notes{
			Changed: func() { h.changed <- struct{}{} }, Finished: func() { h.finished <- struct{}{} },
			Progress: func(_ ids.Task, p protocol.Progress) { h.steps <- p },
			Probe:    func(_ context.Context, r *protocol.Result) { h.probes <- r },
			Keys:     func() { h.keys <- struct{}{} },
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	b.t.Cleanup(func() { cancel(); running.Wait() })
	return c, h
}

func wait[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("not observed: %s", what)
		panic("unreachable")
	}
}

func (b *bundle) envelope(id ids.Allocation, fence int64, kind protocol.Type, params any, gpus ...string) protocol.Envelope {
	b.t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	now := b.now().UTC().Truncate(time.Second)
	return protocol.Envelope{
		V: protocol.Version, Kid: "0001", Task: ids.New[ids.Task](), Node: b.node, Allocation: id, Slots: gpus, Generation: 1, Fence: fence, Attempt: 1,
		Type: kind, Params: text, SpecHash: string(kind), NotBefore: now.Add(-protocol.Backdate), ExpiresAt: now.Add(2 * time.Minute), Nonce: rand.Text(),
	}
}

func (b *bundle) provision(id ids.Allocation, fence int64) protocol.Envelope {
	return b.envelope(id, fence, protocol.ProvisionUser, protocol.ProvisionUserParams{
		User: "t-1", UID: 200001, PublicKeys: []string{tenantKey}, GPUs: b.gpus[:1],
	}, b.gpus[0])
}

func (b *bundle) revoke(id ids.Allocation, fence int64) protocol.Envelope {
	return b.envelope(id, fence, protocol.RevokeUser, protocol.RevokeUserParams{User: "t-1", UID: 200001, GPUs: b.gpus[:1], Mode: "purge"}, b.gpus[0])
}

func (b *bundle) sign(e protocol.Envelope) protocol.Signed {
	b.t.Helper()
	body, err := e.Canonical()
	if err != nil {
		b.t.Fatal(err)
	}
	return protocol.Signed{Body: body, Signature: ed25519.Sign(b.key, body)}
}

func (b *bundle) host() *sim.Host {
	b.t.Helper()
	h, err := sim.Read(sim.Path(b.dir))
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

// result waits for the end of a task.
func (b *bundle) result(c *helper.Client, h heard, e protocol.Envelope) *protocol.Result {
	b.t.Helper()
	for {
		results, err := c.PendingResults(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		for _, r := range results {
			if r.Task == e.Task {
				return r
			}
		}
		wait(b.t, "an end", h.finished)
	}
}
