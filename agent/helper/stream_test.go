package helper_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// relays are the relay key of the control plane.
type relays struct{ key ed25519.PrivateKey }

// trustRelays makes the helper trust a relay key, as an enrolment does.
func (b *bundle) trustRelays() relays {
	b.t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.t.Fatal(err)
	}
	trust := protocol.Trust{TaskKeys: b.public(), StatementKeys: b.statementKeys(), RelayKeys: map[string][]byte{"0001": public}}
	belief, err := helper.FirstTrustState(b.journal(), b.node, trust)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := belief.Save(b.journal()); err != nil {
		b.t.Fatal(err)
	}
	return relays{key}
}

var someServer = protocol.RelayOpenParams{Kind: protocol.StreamSSH, Address: "terminal.example:7445", ServerKey: strings.Repeat("0f", 32)}

func (b *bundle) stream(of ids.Allocation, fence int64) protocol.Envelope {
	b.t.Helper()
	e, err := protocol.NewRelayOpen("0001", ids.New[ids.Task](), b.node, of, fence, someServer, strings.Repeat("0", 32), "", b.now())
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

func (b *bundle) signBy(key ed25519.PrivateKey, e protocol.Envelope) protocol.Signed {
	b.t.Helper()
	body, err := e.Canonical()
	if err != nil {
		b.t.Fatal(err)
	}
	return protocol.Signed{Kid: e.Kid, Body: body, Signature: ed25519.Sign(key, body)}
}

// INV-53: only the relay key opens streams, to an allocation that is active at its fence, and each request once.
func TestINV53RequestsForStreams(t *testing.T) {
	t.Parallel()
	b := setup(t)
	relay, ahead := b.trustRelays(), b.later()
	b.start()
	if err := os.WriteFile(sim.LoginFile(b.dir), []byte("127.0.0.1:2222\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	of, stopped := ids.New[ids.Allocation](), ids.New[ids.Allocation]()
	task := b.provision(of, 5)
	if _, err := c.Receive(t.Context(), b.sign(task)); err != nil {
		t.Fatal(err)
	}
	if r := b.result(c, h, task); r.Outcome != protocol.Succeeded {
		t.Fatalf("%+v", r)
	}
	first := b.signBy(relay.key, b.stream(of, 5))
	got, err := c.Stream(t.Context(), first)
	if err != nil || got.Reason != "" || got.Login != "127.0.0.1:2222" || got.Address != someServer.Address || got.ServerKey != someServer.ServerKey {
		t.Fatalf("%+v, %v", got, err)
	}

	changed := func(change func(*protocol.Envelope)) protocol.Signed {
		e := b.stream(of, 5)
		change(&e)
		return b.signBy(relay.key, e)
	}
	params := func(p protocol.RelayOpenParams) protocol.Signed {
		return changed(func(e *protocol.Envelope) { e.Params, _ = json.Marshal(p) })
	}
	bent := b.signBy(relay.key, b.stream(of, 5))
	bent.Body[len(bent.Body)/2] ^= 1
	for what, try := range map[string]struct {
		signed protocol.Signed
		code   protocol.RejectReason
	}{
		"repeated":                   {first, protocol.Replayed},
		"forged":                     {bent, protocol.SignatureInvalid},
		"signed by the task key":     {b.signBy(b.key, b.stream(of, 5)), protocol.SignatureInvalid},
		"by the statement key":       {b.signBy(b.states, b.stream(of, 5)), protocol.SignatureInvalid},
		"by an unknown key":          {changed(func(e *protocol.Envelope) { e.Kid = "0009" }), protocol.KeyUnknown},
		"for another node":           {changed(func(e *protocol.Envelope) { e.Node = ids.New[ids.Node]() }), protocol.Misaddressed},
		"without an allocation":      {changed(func(e *protocol.Envelope) { e.Allocation = ids.Allocation{} }), protocol.ParamsInvalid},
		"valid for too long":         {changed(func(e *protocol.Envelope) { e.ExpiresAt = e.ExpiresAt.Add(time.Second) }), protocol.EnvelopeInvalid},
		"a task by the relay key":    {b.signBy(relay.key, b.provision(stopped, 1)), protocol.TypeUnknown},
		"of an unknown kind":         {params(protocol.RelayOpenParams{Kind: "http", Address: someServer.Address, ServerKey: someServer.ServerKey}), protocol.ParamsInvalid},
		"an address without a port":  {params(protocol.RelayOpenParams{Kind: "ssh", Address: "terminal", ServerKey: someServer.ServerKey}), protocol.ParamsInvalid},
		"an address with characters": {params(protocol.RelayOpenParams{Kind: "ssh", Address: "a\r\nb:1", ServerKey: someServer.ServerKey}), protocol.ParamsInvalid},
		"logs without a query":       {params(protocol.RelayOpenParams{Kind: "logs", Address: someServer.Address, ServerKey: someServer.ServerKey}), protocol.ParamsInvalid},
		"without the server's key":   {params(protocol.RelayOpenParams{Kind: "ssh", Address: someServer.Address}), protocol.ParamsInvalid},
	} {
		if got, err := c.Stream(t.Context(), try.signed); protocol.CodeOf(err) != try.code || got.Address != "" {
			t.Errorf("%s: %+v, %v, want %s", what, got, err, try.code)
		}
	}
	for what, try := range map[string]struct {
		signed protocol.Signed
		code   protocol.RejectReason
	}{
		"an old fence":          {b.signBy(relay.key, b.stream(of, 4)), protocol.StaleFence},
		"a later fence":         {b.signBy(relay.key, b.stream(of, 6)), protocol.NotActive},
		"an unknown allocation": {b.signBy(relay.key, b.stream(stopped, 5)), protocol.NotActive},
	} {
		if got, err := c.Stream(t.Context(), try.signed); err != nil || got.Login != "" || !strings.HasPrefix(got.Reason, string(try.code)) {
			t.Errorf("%s: %+v, %v, want %s", what, got, err, try.code)
		}
	}
	// The relay key signs no task, and the task key no request for a stream that arrives as a task.
	for what, signed := range map[string]protocol.Signed{
		"a task by the relay key": b.signBy(relay.key, b.provision(stopped, 1)), "a stream by the task key": b.signBy(b.key, b.stream(of, 5)),
	} {
		if a, err := c.Receive(t.Context(), signed); err != nil || a.Rejection == nil {
			t.Errorf("%s: %+v, %v", what, a, err)
		}
	}
	late := b.signBy(relay.key, b.stream(of, 5))
	ahead.Store(int64(protocol.RelayWithin))
	if got, err := c.Stream(t.Context(), late); err != nil || !strings.HasPrefix(got.Reason, string(protocol.Expired)) {
		t.Errorf("expired: %+v, %v", got, err)
	}
	release := b.revoke(of, 7)
	if _, err := c.Receive(t.Context(), b.sign(release)); err != nil {
		t.Fatal(err)
	}
	b.result(c, h, release)
	for _, fence := range []int64{5, 7} {
		if got, err := c.Stream(t.Context(), b.signBy(relay.key, b.stream(of, fence))); err != nil || !strings.HasPrefix(got.Reason, string(protocol.NotActive)) {
			t.Errorf("released, at fence %d: %+v, %v", fence, got, err)
		}
	}
}

// A node that enrolled before there were relay keys receives them in the next set, which a task key signs.
func TestRelayKeysArriveInASet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed := b.signBy(key, b.stream(ids.New[ids.Allocation](), 1))
	if _, err := c.Stream(t.Context(), signed); protocol.CodeOf(err) != protocol.KeyUnknown {
		t.Errorf("without relay keys: %v", err)
	}
	set := protocol.KeySet{
		V: protocol.Version, Kid: "0001", Sequence: 2, TaskKeys: b.public(), StatementKeys: b.statementKeys(),
		RelayKeys: map[string][]byte{"0001": b.public()["0001"]}, IssuedAt: b.now(),
	}
	sign := func() []protocol.Signed {
		body, err := set.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		return []protocol.Signed{{Kid: "0001", Body: body, Signature: ed25519.Sign(b.key, body)}}
	}
	if err := c.UpdateTrust(t.Context(), sign()); protocol.CodeOf(err) != protocol.EnvelopeInvalid {
		t.Errorf("a task key as a relay key: %v", err)
	}
	set.RelayKeys["0001"] = public
	if err := c.UpdateTrust(t.Context(), sign()); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Stream(t.Context(), signed); err != nil || !strings.HasPrefix(got.Reason, string(protocol.NotActive)) {
		t.Errorf("with relay keys: %+v, %v", got, err)
	}
	state, err := helper.LoadTrustState(b.journal())
	if err != nil || len(state.RelayKeys) != 1 {
		t.Errorf("stored: %d relay keys, %v", len(state.RelayKeys), err)
	}
}
