package helper_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

func (b *bundle) inspect(c *helper.Client) protocol.Report {
	b.t.Helper()
	r, err := c.Inspect(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// ack is the response to a report as the control plane signs it, with a change.
func (b *bundle) ack(r protocol.Report, change func(*protocol.ReportAck)) protocol.Signed {
	b.t.Helper()
	a := protocol.ReportAck{V: protocol.Version, Kid: "0001", Node: b.node, Nonce: r.Nonce, Accepted: true, Verified: true}
	change(&a)
	body, err := a.Canonical()
	if err != nil {
		b.t.Fatal(err)
	}
	return protocol.Signed{Kid: a.Kid, Body: body, Signature: ed25519.Sign(b.states, body)}
}

func (b *bundle) hear(c *helper.Client, s protocol.Signed) {
	b.t.Helper()
	if err := c.HandleAck(b.t.Context(), helper.ReportAck{Signed: s, Version: "test"}); err != nil {
		b.t.Fatal(err)
	}
}

func accept(*protocol.ReportAck) {}

// hostile are the responses that a network process can make of what it has. r is a report of the helper
// that the control plane has accepted, and used is the response to it.
func (b *bundle) hostile(t *testing.T, c *helper.Client, used protocol.Signed) map[string]func() protocol.Signed {
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	resign := func(s protocol.Signed) protocol.Signed {
		s.Signature = ed25519.Sign(other, s.Body)
		return s
	}
	of := func(change func(*protocol.ReportAck)) func() protocol.Signed {
		return func() protocol.Signed { return b.ack(b.inspect(c), change) }
	}
	return map[string]func() protocol.Signed{
		"none":           func() protocol.Signed { return protocol.Signed{} },
		"used before":    func() protocol.Signed { return used },
		"of another key": func() protocol.Signed { return resign(b.ack(b.inspect(c), accept)) },
		"INV-76: stale, of a task key": func() protocol.Signed {
			r := b.inspect(c)
			s := b.ack(r, func(a *protocol.ReportAck) { a.Accepted, a.Boot = false, r.Boot+9 })
			s.Signature = ed25519.Sign(b.key, s.Body)
			return s
		},
		"of an unknown key": of(func(a *protocol.ReportAck) { a.Kid = "0009" }),
		"of another node":   of(func(a *protocol.ReportAck) { a.Node = ids.New[ids.Node]() }),
		"of another report": of(func(a *protocol.ReportAck) { a.Nonce = strings.Repeat("a", 32) }),
		"without a nonce":   of(func(a *protocol.ReportAck) { a.Nonce = "" }),
		"with a bit turned": func() protocol.Signed { s := b.ack(b.inspect(c), accept); s.Body[len(s.Body)-3] ^= 1; return s },
		"a task":            func() protocol.Signed { return b.sign(b.provision(ids.New[ids.Allocation](), 9)) },
		"stale, one boot": func() protocol.Signed {
			r := b.inspect(c)
			return b.ack(r, func(a *protocol.ReportAck) { a.Accepted, a.Boot = false, r.Boot })
		},
		"stale, not verified": func() protocol.Signed {
			r := b.inspect(c)
			return b.ack(r, func(a *protocol.ReportAck) { a.Accepted, a.Verified, a.Boot = false, false, r.Boot+9 })
		},
		"stale, forged": func() protocol.Signed {
			r := b.inspect(c)
			return resign(b.ack(r, func(a *protocol.ReportAck) { a.Accepted, a.Boot = false, r.Boot+9 }))
		},
	}
}

// INV-80: a hostile network process makes the helper drop its journal, or prevents offline enforcement from
// starting. Responses that the control plane did not sign for a report of the helper have no effect.
func TestINV80HostileResponsesHaveNoEffect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	offset := b.later()
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	e := b.provision(ids.New[ids.Allocation](), 1)
	if a, err := c.Receive(t.Context(), b.sign(e)); err != nil || a.Rejection != nil {
		t.Fatal(a.Rejection, err)
	}
	b.result(c, h, e)
	old := b.ack(b.inspect(c), accept)
	used := b.ack(b.inspect(c), accept)
	b.stop()
	b.start() // this process has heard nothing: it would count stale reports
	wait(t, "a greeting", h.met)

	offset.Store(int64(90 * time.Second))
	for name, hostile := range b.hostile(t, c, used) {
		for range 6 {
			b.hear(c, hostile())
		}
		if a, err := c.Receive(t.Context(), b.sign(e)); err != nil || a.Rejection != nil {
			t.Errorf("%s: the journal is lost: %v, %v", name, a.Rejection, err)
		}
	}
	late := b.ack(b.inspect(c), accept)
	offset.Store(int64(3 * time.Minute))
	b.hear(c, old)  // of the process before
	b.hear(c, late) // 90 seconds late
	if err := sim.Edit(sim.Path(b.dir), func(h *sim.Host) error { h.Accounts["t-1"].Keys = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	b.local.Beat(t.Context())
	for range 1000 {
		if len(b.host().Accounts["t-1"].Keys) == 1 {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Error("offline enforcement does not start")
}

// INV-80: stop_after_hours counts from the last response of the control plane. A restart of the helper,
// which the network process can cause, does not extend it.
func TestINV80AStopSurvivesRestarts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	offset := b.later()
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	e := b.envelope(ids.New[ids.Allocation](), 1, protocol.ProvisionUser, protocol.ProvisionUserParams{
		User: "t-1", UID: 200001, PublicKeys: []string{tenantKey}, GPUs: b.gpus[:1], StopAfterHours: 2,
	}, b.gpus[0])
	if a, err := c.Receive(t.Context(), b.sign(e)); err != nil || a.Rejection != nil {
		t.Fatal(a.Rejection, err)
	}
	b.result(c, h, e)
	b.hear(c, b.ack(b.inspect(c), accept))
	for hours := range 3 {
		offset.Store(int64(time.Duration(hours)*time.Hour + 30*time.Minute))
		b.stop()
		b.start()
		offset.Add(int64(2 * time.Minute))
		b.local.Beat(t.Context())
		if keys := b.host().Accounts["t-1"].Keys; hours < 2 && len(keys) != 1 {
			t.Errorf("stopped after %s", time.Duration(offset.Load()))
		}
	}
	for range 1000 {
		if len(b.host().Accounts["t-1"].Keys) == 0 {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Error("the tenant is not stopped")
}
