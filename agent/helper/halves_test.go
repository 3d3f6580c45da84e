package helper_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

func TestTheHalvesWorkOverTheSocket(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.start()
	c, h := b.connect()
	hello := wait(t, "a greeting", h.met)
	if hello.Node != b.node || !hello.Journal || len(hello.ProofKey) != ed25519.PublicKeySize {
		t.Errorf("%+v", hello)
	}
	id := ids.New[ids.Allocation]()
	e := b.provision(id, 1)
	if a, err := c.Receive(t.Context(), b.sign(e)); err != nil || a.Rejection != nil {
		t.Fatal(a.Rejection, err)
	}
	if r := b.result(c, h, e); r.Outcome != protocol.Succeeded {
		t.Errorf("%+v", r)
	}
	if wait(t, "a step", h.steps).Of == 0 {
		t.Error("a step of nothing")
	}
	again := b.provision(id, 0)
	again.Fence = 1
	again.Generation = 2
	if a, err := c.Receive(t.Context(), b.sign(again)); err != nil || protocol.CodeOf(a.Rejection) != protocol.FenceConflict || a.Reply == nil {
		t.Errorf("%+v, %v", a, err)
	}

	first, err := c.Inspect(t.Context())
	if err != nil || !first.Complete || len(first.Allocations) != 1 || first.Helper != "test" {
		t.Fatalf("%+v, %v", first, err)
	}
	// This process starts again, then the other one: reports stay in order.
	b.stop()
	b.start()
	wait(t, "a greeting", h.met)
	second, err := c.Inspect(t.Context())
	if err != nil || second.Boot <= first.Boot {
		t.Errorf("boot %d after %d, %v", second.Boot, first.Boot, err)
	}

	out := b.revoke(id, 2)
	if a, err := c.Receive(t.Context(), b.sign(out)); err != nil || a.Rejection != nil {
		t.Fatal(a.Rejection, err)
	}
	r := b.result(c, h, out)
	if err := r.Proof.Verify(hello.ProofKey, b.node, id, 2); err != nil || !r.Proof.Clean(b.gpus[:1]) {
		t.Errorf("%v: %+v", err, r.Proof)
	}
	if err := c.AckResult(t.Context(), id, out.Task); err != nil {
		t.Fatal(err)
	}
	probe := b.envelope(ids.Allocation{}, 0, protocol.Probe, protocol.ProbeParams{})
	if a, err := c.Receive(t.Context(), b.sign(probe)); err != nil || a.Rejection != nil {
		t.Fatal(a.Rejection, err)
	}
	if r := wait(t, "an answer to a probe", h.probes); r.Task != probe.Task {
		t.Errorf("%+v", r)
	}
}

// New keys are accepted by a chain of statements, each signed by a key before it.
func TestKeysAreAcceptedByAChain(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	old := b.key
	_, next, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	state := func(by ed25519.PrivateKey, kid string, change func(*protocol.KeySet)) []protocol.Signed {
		s := protocol.KeySet{
			V: protocol.Version, Kid: kid, Sequence: 2, IssuedAt: b.now(), StatementKeys: b.statementKeys(),
			TaskKeys: map[string][]byte{"0001": old.Public().(ed25519.PublicKey), "0002": next.Public().(ed25519.PublicKey)},
		}
		change(&s)
		body, err := s.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		return []protocol.Signed{{Kid: kid, Body: body, Signature: ed25519.Sign(by, body)}}
	}
	same := func(*protocol.KeySet) {}
	for rule, s := range map[string][]protocol.Signed{
		"none":                         nil,
		"signed by itself":             state(next, "0002", same),
		"without a sequence":           state(old, "0001", func(s *protocol.KeySet) { s.Sequence = 0 }),
		"of another version":           state(old, "0001", func(s *protocol.KeySet) { s.V = 2 }),
		"naming another signer":        state(old, "0002", same),
		"without its signer":           state(old, "0001", func(s *protocol.KeySet) { delete(s.TaskKeys, "0001") }),
		"without keys":                 state(old, "0001", func(s *protocol.KeySet) { s.TaskKeys = nil }),
		"without statement keys":       state(old, "0001", func(s *protocol.KeySet) { s.StatementKeys = nil }),
		"with a key for two purposes":  state(old, "0001", func(s *protocol.KeySet) { s.StatementKeys = s.TaskKeys }),
		"with half a key":              state(old, "0001", func(s *protocol.KeySet) { s.TaskKeys["0003"] = []byte("x") }),
		"an envelope":                  {b.sign(b.provision(ids.New[ids.Allocation](), 1))},
		"INV-76: by the statement key": state(b.states, "0001", same),
	} {
		if err := c.UpdateTrust(t.Context(), s); protocol.CodeOf(err) == "" {
			t.Errorf("%s: %v", rule, err)
		}
	}
	begun := state(old, "0001", same)
	if err := c.UpdateTrust(t.Context(), begun); err != nil {
		t.Fatal(err)
	}
	if err := c.UpdateTrust(t.Context(), state(old, "0001", func(s *protocol.KeySet) { s.Sequence = 1 })); protocol.CodeOf(err) != protocol.Replayed {
		t.Errorf("an older set: %v", err)
	}
	// The server publishes the last sets. A node that followed the first of them follows the others.
	finished := append(begun, state(next, "0002", func(s *protocol.KeySet) { s.Sequence = 3; delete(s.TaskKeys, "0001") })...)
	for range 2 {
		if err := c.UpdateTrust(t.Context(), finished); err != nil {
			t.Fatal(err)
		}
	}
	b.stop()
	b.start() // the chain outlives a restart
	wait(t, "a greeting", h.met)
	id := ids.New[ids.Allocation]()
	if a, _ := c.Receive(t.Context(), b.sign(b.provision(id, 1))); protocol.CodeOf(a.Rejection) != protocol.SignatureInvalid {
		t.Errorf("the key of before: %v", a.Rejection)
	}
	e := b.provision(id, 1)
	e.Kid, b.key = "0002", next
	if a, err := c.Receive(t.Context(), b.sign(e)); err != nil || a.Rejection != nil {
		t.Errorf("%v, %v", a.Rejection, err)
	}
	b.result(c, h, e)
	if statement := state(next, "0002", same); statementAsTask(t, b, statement[0]) {
		t.Error("a statement was accepted as a task")
	}
}

// INV-76: a stolen task key replaces the release keys, and so the program that runs as root on every node.
// Release keys change only by a statement that a release key signed.
func TestINV76ATaskKeyChangesNoReleaseKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, release, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public := func(key ed25519.PrivateKey) []byte { return key.Public().(ed25519.PublicKey) }
	state, err := helper.LoadTrustState(b.journal())
	if err != nil {
		t.Fatal(err)
	}
	state.ReleaseKeys = map[string][]byte{"r1": public(release)}
	if err := state.Save(b.journal()); err != nil {
		t.Fatal(err)
	}
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	trusts := func() string {
		t.Helper()
		return strings.Join(slices.Sorted(maps.Keys(b.local.ReleaseKeys())), " ")
	}
	task := protocol.KeySet{V: protocol.Version, Kid: "0001", Sequence: 9, IssuedAt: b.now(), TaskKeys: b.public(), StatementKeys: map[string][]byte{"r9": public(other)}}
	body, err := task.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.UpdateTrust(t.Context(), []protocol.Signed{{Kid: "0001", Body: body, Signature: ed25519.Sign(b.key, body)}}); err != nil || trusts() != "r1" {
		t.Errorf("a task key has changed the release keys to %s, %v", trusts(), err)
	}
	set := func(by ed25519.PrivateKey, kid string, sequence int64, keys map[string][]byte) error {
		s := protocol.ReleaseKeySet{V: protocol.Version, Kid: kid, Sequence: sequence, Keys: keys, IssuedAt: b.now()}
		body, err := s.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		return c.UpdateReleaseKeys(t.Context(), []protocol.Signed{{Kid: kid, Body: body, Signature: ed25519.Sign(by, body)}})
	}
	both := map[string][]byte{"r1": public(release), "r2": public(other)}
	for rule, err := range map[string]error{
		"signed by a task key":  set(b.key, "0001", 3, both),
		"signed by itself":      set(other, "r2", 3, both),
		"naming another signer": set(release, "r2", 3, both),
		"without keys":          set(release, "r1", 3, nil),
		"without a sequence":    set(release, "r1", 0, both),
		"the statement above":   c.UpdateReleaseKeys(t.Context(), []protocol.Signed{{Kid: "r1", Body: body, Signature: ed25519.Sign(release, body)}}),
	} {
		if protocol.CodeOf(err) == "" || trusts() != "r1" {
			t.Errorf("%s: %v, trusts %s", rule, err, trusts())
		}
	}
	if err := set(release, "r1", 3, both); err != nil || trusts() != "r1 r2" {
		t.Errorf("signed by a release key: %v, trusts %s", err, trusts())
	}
	if err := set(release, "r1", 2, map[string][]byte{"r1": public(release)}); protocol.CodeOf(err) != protocol.Replayed {
		t.Errorf("an older one: %v", err)
	}
	if err := set(other, "r2", 4, map[string][]byte{"r2": public(other)}); err != nil || trusts() != "r2" {
		t.Errorf("the end of the rotation: %v, trusts %s", err, trusts())
	}
	b.stop()
	b.start()
	if trusts() != "r2" {
		t.Errorf("after a restart it trusts %s", trusts())
	}
}

// INV-76: the node role of the server has the statement key. It cannot create a task with it, whatever the
// envelope names as its key.
func TestINV76AStatementKeySignsNoTask(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	before := b.host().Version
	for _, kid := range []string{"0001", "0002", ""} {
		e := b.provision(ids.New[ids.Allocation](), 1)
		if kid != "" {
			e.Kid = kid
		}
		s := b.sign(e)
		s.Signature = ed25519.Sign(b.states, s.Body)
		if a, err := c.Receive(t.Context(), s); err != nil || protocol.CodeOf(a.Rejection) != protocol.SignatureInvalid {
			t.Errorf("named %q: %v, %v", kid, a.Rejection, err)
		}
	}
	if now := b.host(); now.Version != before {
		t.Errorf("something was executed: %+v", now)
	}
}

func statementAsTask(t *testing.T, b *bundle, s protocol.Signed) bool {
	t.Helper()
	a, err := b.local.Receive(t.Context(), s)
	return err != nil || a.Rejection == nil
}

// The control plane has received a report of a later boot: this disk was restored or copied.
func TestINV43ALaterBootIsNoticed(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	say := func(accepted bool, times int) {
		for range times {
			r := b.inspect(c)
			b.hear(c, b.ack(r, func(a *protocol.ReportAck) { a.Accepted, a.Boot = accepted, r.Boot+1 }))
		}
	}
	say(true, 1)
	say(false, 20) // reports that cross are no later life
	id := ids.New[ids.Allocation]()
	e := b.provision(id, 1)
	if a, err := c.Receive(t.Context(), b.sign(e)); err != nil || a.Rejection != nil {
		t.Fatal(a.Rejection, err)
	}
	b.result(c, h, e)
	b.stop()
	b.start()
	wait(t, "a greeting", h.met)
	say(false, 5)
	for range 2 {
		if a, err := c.Receive(t.Context(), b.sign(b.revoke(id, 2))); err != nil || protocol.CodeOf(a.Rejection) != protocol.JournalLost {
			t.Errorf("%v, %v", a.Rejection, err)
		}
		b.stop()
		b.start()
		wait(t, "a greeting", h.met)
	}
}

// Without contact to the server the last tasks stay in effect. A task may require that its tenant is stopped.
func TestAloneTheHelperEnforces(t *testing.T) {
	t.Parallel()

	b := setup(t)
	offset := b.later()
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	keeps, stops := ids.New[ids.Allocation](), ids.New[ids.Allocation]()
	kept := b.provision(keeps, 1)
	limited := b.envelope(stops, 1, protocol.ProvisionUser, protocol.ProvisionUserParams{
		User: "t-2", UID: 200002, PublicKeys: []string{tenantKey}, GPUs: b.gpus[1:2], StopAfterHours: 2,
	}, b.gpus[1])
	for _, e := range []protocol.Envelope{kept, limited} {
		if a, err := c.Receive(t.Context(), b.sign(e)); err != nil || a.Rejection != nil {
			t.Fatal(a.Rejection, err)
		}
		b.result(c, h, e)
	}
	edit := func(change func(*sim.Host)) {
		if err := sim.Edit(sim.Path(b.dir), func(h *sim.Host) error { change(h); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	until := func(what string, ok func(*sim.Host) bool) {
		t.Helper()
		for range 2000 {
			if ok(b.host()) {
				return
			}
			<-time.After(5 * time.Millisecond)
		}
		t.Fatalf("not observed: %s", what)
	}

	edit(func(h *sim.Host) { h.Accounts["t-1"].Keys = nil })
	b.local.Beat(t.Context()) // the control plane was heard a moment ago: it decides
	if keys := b.host().Accounts["t-1"].Keys; len(keys) != 0 {
		t.Errorf("repaired without the control plane: %v", keys)
	}
	offset.Store(int64(90 * time.Second))
	b.local.Beat(t.Context())
	until("the keys again", func(h *sim.Host) bool { return len(h.Accounts["t-1"].Keys) == 1 })

	edit(func(h *sim.Host) {
		h.Processes = append(h.Processes, sim.Process{PID: 7, UID: 200002, GPU: b.gpus[1], Command: "train"}, sim.Process{PID: 8, UID: 200001, GPU: b.gpus[0], Command: "train"})
	})
	offset.Store(int64(3 * time.Hour))
	b.local.Beat(t.Context())
	until("a stopped tenant", func(h *sim.Host) bool { return len(h.Accounts["t-2"].Keys) == 0 && len(h.Processes) == 1 })
	if h := b.host(); h.Processes[0].PID != 8 || len(h.Accounts["t-1"].Keys) != 1 {
		t.Errorf("the other tenant: %+v", h)
	}
	b.stop()
	b.start()
	offset.Add(int64(2 * time.Minute)) // it does not admit the tenant that it has stopped
	b.local.Beat(t.Context())
	b.stop()
	if keys := b.host().Accounts["t-2"].Keys; len(keys) != 0 {
		t.Error("a tenant who was stopped is let in by a restart")
	}
}
