package runner_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// untouched fails if the node or the journal was changed.
func (b *bundle) untouched(rule string, before int64) {
	b.t.Helper()
	if h := b.simHost(); h.Version != before || len(h.Accounts) != 0 {
		b.t.Errorf("%s: the node was changed", rule)
	}
	if len(b.Journal.All()) != 0 {
		b.t.Errorf("%s: the task was journalled", rule)
	}
}

// INV-42: whatever bit of body or signature is flipped, nothing is executed.
func TestINV42FlippedBits(t *testing.T) {
	t.Parallel()

	b := setup(t)
	before := b.simHost().Version
	signed := b.sign(b.provision(ids.New[ids.Allocation](), 1, b.gpus[0]))
	for _, part := range [][]byte{signed.Body, signed.Signature} {
		for i := range len(part) * 8 {
			part[i/8] ^= 1 << (i % 8)
			if a := b.Receive(signed); protocol.CodeOf(a.Rejection) != protocol.SignatureInvalid || a.Reply != nil {
				t.Fatalf("bit %d: %+v", i, a)
			}
			part[i/8] ^= 1 << (i % 8)
		}
	}
	b.untouched("flipped", before)
}

// INV-42, INV-44: each is signed with the right key, and rejected with its code.
func TestINV42RejectedWithACode(t *testing.T) {
	t.Parallel()

	change := func(f func(*protocol.Envelope)) func(*bundle, protocol.Envelope) protocol.Signed {
		return func(b *bundle, e protocol.Envelope) protocol.Signed {
			f(&e)
			return b.sign(e)
		}
	}
	body := func(f func([]byte) []byte) func(*bundle, protocol.Envelope) protocol.Signed {
		return func(b *bundle, e protocol.Envelope) protocol.Signed {
			s := b.sign(e)
			s.Body = f(s.Body)
			s.Signature = ed25519.Sign(b.key, s.Body)
			return s
		}
	}
	replace := func(from, to string) func(*bundle, protocol.Envelope) protocol.Signed {
		return body(func(text []byte) []byte { return bytes.Replace(text, []byte(from), []byte(to), 1) })
	}
	params := func(f func(*protocol.ProvisionUserParams)) func(*bundle, protocol.Envelope) protocol.Signed {
		return change(func(e *protocol.Envelope) {
			var p protocol.ProvisionUserParams
			if err := json.Unmarshal(e.Params, &p); err != nil {
				panic(err)
			}
			f(&p)
			e.Params, _ = json.Marshal(p)
		})
	}

	for rule, c := range map[string]struct {
		sign func(*bundle, protocol.Envelope) protocol.Signed
		code protocol.RejectReason
	}{
		"another node":         {change(func(e *protocol.Envelope) { e.Node = ids.New[ids.Node]() }), protocol.Misaddressed},
		"expired":              {change(func(e *protocol.Envelope) { e.NotBefore, e.ExpiresAt = t0.Add(-time.Hour), t0 }), protocol.Expired},
		"of tomorrow":          {change(func(e *protocol.Envelope) { e.NotBefore, e.ExpiresAt = t0.Add(6*time.Minute), t0.Add(time.Hour) }), protocol.NotYetValid},
		"ends before it":       {change(func(e *protocol.Envelope) { e.ExpiresAt = e.NotBefore }), protocol.EnvelopeInvalid},
		"newer version":        {change(func(e *protocol.Envelope) { e.V = 2 }), protocol.VersionUnsupported},
		"another key's name":   {change(func(e *protocol.Envelope) { e.Kid = "0002" }), protocol.EnvelopeInvalid},
		"unknown type":         {change(func(e *protocol.Envelope) { e.Type = "node.exec" }), protocol.TypeUnknown},
		"no fence":             {change(func(e *protocol.Envelope) { e.Fence = 0 }), protocol.EnvelopeInvalid},
		"no allocation":        {change(func(e *protocol.Envelope) { e.Allocation = ids.Allocation{} }), protocol.EnvelopeInvalid},
		"slots twice":          {change(func(e *protocol.Envelope) { e.Slots = append(e.Slots, e.Slots[0]) }), protocol.EnvelopeInvalid},
		"a name twice":         {replace(`{"v":1,`, `{"v":1,"v":1,`), protocol.EnvelopeInvalid},
		"fence twice":          {replace(`"fence":1,`, `"fence":1,"fence":9,`), protocol.EnvelopeInvalid},
		"a name in capitals":   {replace(`"fence":1,`, `"Fence":1,`), protocol.EnvelopeInvalid},
		"an unknown field":     {replace(`{"v":1,`, `{"v":1,"sudo":true,`), protocol.EnvelopeInvalid},
		"a space":              {replace(`{"v":1,`, `{"v": 1,`), protocol.EnvelopeInvalid},
		"a number re-encoded":  {replace(`"fence":1,`, `"fence":1.0,`), protocol.EnvelopeInvalid},
		"an escaped letter":    {replace(`"0001"`, `"\u0030001"`), protocol.EnvelopeInvalid},
		"something behind":     {body(func(text []byte) []byte { return append(text, ' ', '{', '}') }), protocol.EnvelopeInvalid},
		"not an object":        {body(func([]byte) []byte { return []byte(`[]`) }), protocol.EnvelopeInvalid},
		"too large":            {body(func([]byte) []byte { return make([]byte, protocol.MaxBody+1) }), protocol.EnvelopeInvalid},
		"params: unknown":      {replace(`{"user"`, `{"shell":"sh","user"`), protocol.ParamsInvalid},
		"params: twice":        {replace(`{"user":"t-1"`, `{"user":"x","user":"t-1"`), protocol.ParamsInvalid},
		"params: root":         {params(func(p *protocol.ProvisionUserParams) { p.UID = 0 }), protocol.ParamsInvalid},
		"params: a system uid": {params(func(p *protocol.ProvisionUserParams) { p.UID = 1000 }), protocol.ParamsInvalid},
		"params: a path":       {params(func(p *protocol.ProvisionUserParams) { p.User = "../root" }), protocol.ParamsInvalid},
		"params: other GPUs":   {params(func(p *protocol.ProvisionUserParams) { p.GPUs = []string{"GPU-00000000-0000-0000-0000-000000000000"} }), protocol.ParamsInvalid},
		"params: an option": {params(func(p *protocol.ProvisionUserParams) {
			p.PublicKeys = []string{`command="sh" ` + tenantKey}
		}), protocol.ParamsInvalid},
		"params: two lines": {params(func(p *protocol.ProvisionUserParams) { p.PublicKeys = []string{tenantKey + "\n" + tenantKey} }), protocol.ParamsInvalid},
		"params: no key":    {params(func(p *protocol.ProvisionUserParams) { p.PublicKeys = []string{"hello"} }), protocol.ParamsInvalid},
		"an unknown key": {func(b *bundle, e protocol.Envelope) protocol.Signed {
			s := b.sign(e)
			s.Kid = "0002"
			return s
		}, protocol.KeyUnknown},
		"a stranger's key": {func(b *bundle, e protocol.Envelope) protocol.Signed {
			s := b.sign(e)
			_, key, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				panic(err)
			}
			s.Signature = ed25519.Sign(key, s.Body)
			return s
		}, protocol.SignatureInvalid},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()

			b := setup(t)
			before := b.simHost().Version
			a := b.Receive(c.sign(b, b.provision(ids.New[ids.Allocation](), 1, b.gpus[0])))
			if protocol.CodeOf(a.Rejection) != c.code {
				t.Errorf("%v", a.Rejection)
			}
			// An envelope without a valid signature has no task to report on.
			if a.Reply != nil && (a.Reply.Outcome != protocol.Rejected || a.Reply.Code != c.code) {
				t.Errorf("%+v", a.Reply)
			}
			b.untouched(rule, before)
		})
	}
}

// INV-43: a task that ended is answered from the journal, after a restart too.
func TestINV43ReplaysAreAnsweredNotExecuted(t *testing.T) {
	t.Parallel()

	b := setup(t)
	id := ids.New[ids.Allocation]()
	first := b.provision(id, 1, b.gpus[0])
	want := b.do(first)
	if want.Outcome != protocol.Succeeded {
		t.Fatalf("%+v", want)
	}
	before := b.simHost().Version
	for range 2 {
		a := b.Receive(b.sign(first))
		if a.Rejection != nil || a.Reply == nil || a.Reply.Task != first.Task || a.Reply.Outcome != protocol.Succeeded {
			t.Errorf("%+v", a)
		}
		b.now = b.now.Add(time.Hour) // long expired, and still answered
		b.restart()
	}
	if b.simHost().Version != before {
		t.Error("a replay acted")
	}
}

// INV-45: lower fences, and equal ones with other content.
func TestINV45FencesHold(t *testing.T) {
	t.Parallel()

	b := setup(t)
	id := ids.New[ids.Allocation]()
	b.do(b.provision(id, 5, b.gpus[0]))
	released := b.revoke(id, 6, b.gpus[0])
	b.do(released)
	before := b.simHost().Version

	other := b.provision(id, 6, b.gpus[0])
	elsewhere := released
	elsewhere.Nonce = "another"
	twin := b.revoke(id, 6, b.gpus[0])
	late := b.revoke(id, 6, b.gpus[0])
	late.Attempt = 0
	for rule, c := range map[string]struct {
		task protocol.Envelope
		code protocol.RejectReason
	}{
		"lower fence":                {b.provision(id, 5, b.gpus[0]), protocol.StaleFence},
		"much lower":                 {b.provision(id, 1, b.gpus[0]), protocol.StaleFence},
		"equal fence, other task":    {other, protocol.FenceConflict},
		"equal task, other content":  {elsewhere, protocol.FenceConflict},
		"equal attempt, other task":  {twin, protocol.FenceConflict},
		"equal fence, lower attempt": {late, protocol.Replayed},
	} {
		a := b.Receive(b.sign(c.task))
		if protocol.CodeOf(a.Rejection) != c.code || a.Reply == nil || a.Reply.Code != c.code {
			t.Errorf("%s: %+v", rule, a)
		}
	}
	b.restart()
	if a := b.Receive(b.sign(b.provision(id, 5, b.gpus[0]))); protocol.CodeOf(a.Rejection) != protocol.StaleFence {
		t.Errorf("after a restart: %+v", a)
	}
	if b.simHost().Version != before {
		t.Error("a stale task acted")
	}
}

func TestALostJournalRejects(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.Journal = nil
	before := b.simHost().Version
	a := b.Receive(b.sign(b.revoke(ids.New[ids.Allocation](), 1, b.gpus[0])))
	if protocol.CodeOf(a.Rejection) != protocol.JournalLost || b.simHost().Version != before {
		t.Errorf("%+v", a)
	}
	probe := b.envelope(ids.Allocation{}, 0, protocol.Probe, protocol.ProbeParams{}, nil)
	if a := b.Receive(b.sign(probe)); a.Rejection != nil {
		t.Errorf("probe: %+v", a)
	}
}

// A GPU goes to the next allocation only when the last one is proven gone.
func TestSlotsMustBeFree(t *testing.T) {
	t.Parallel()

	b := setup(t)
	first, second := ids.New[ids.Allocation](), ids.New[ids.Allocation]()
	b.do(b.provision(first, 1, b.gpus[0]))
	if a := b.Receive(b.sign(b.provision(second, 1, b.gpus[0]))); protocol.CodeOf(a.Rejection) != protocol.SlotBusy {
		t.Errorf("busy: %+v", a)
	}
	b.edit(func(h *sim.Host) { h.Fails = map[string]string{"scrub": "read back differs"} })
	if r := b.do(b.revoke(first, 2, b.gpus[0])); r.Code != protocol.ScrubFailed || r.Step != "scrub_after" {
		t.Errorf("%+v", r)
	}
	if a := b.Receive(b.sign(b.provision(second, 1, b.gpus[0]))); protocol.CodeOf(a.Rejection) != protocol.SlotDirty {
		t.Errorf("dirty: %+v", a)
	}
	b.edit(func(h *sim.Host) { h.Fails = nil })
	again := b.revoke(first, 2, b.gpus[0])
	again.Attempt = 2
	if r := b.do(again); r.Outcome != protocol.Succeeded || !r.Proof.Clean(b.gpus[:1]) {
		t.Errorf("%+v", r)
	}
	if r := b.do(b.provision(second, 1, b.gpus[0])); r.Outcome != protocol.Succeeded {
		t.Errorf("%+v", r)
	}
}
