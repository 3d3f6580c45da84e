package runner_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/wire"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// untouched fails when anything happened on the host or in the journal.
func (b *bundle) untouched(rule string, before int64) {
	b.t.Helper()
	if h := b.world(); h.Version != before || len(h.Accounts) != 0 {
		b.t.Errorf("%s: the host was changed", rule)
	}
	if len(b.Journal.All()) != 0 {
		b.t.Errorf("%s: the task was journalled", rule)
	}
}

// INV-42: whatever bit of body or signature is flipped, nothing is executed.
func TestINV42FlippedBits(t *testing.T) {
	t.Parallel()

	b := setup(t)
	before := b.world().Version
	signed := b.sign(b.provision(ids.New[ids.Allocation](), 1, b.gpus[0]))
	for _, part := range [][]byte{signed.Body, signed.Signature} {
		for i := range len(part) * 8 {
			part[i/8] ^= 1 << (i % 8)
			if a := b.Take(signed); wire.CodeOf(a.Refusal) != wire.SignatureInvalid || a.Reply != nil {
				t.Fatalf("bit %d: %+v", i, a)
			}
			part[i/8] ^= 1 << (i % 8)
		}
	}
	b.untouched("flipped", before)
}

// INV-42, INV-44: each is signed with the right key, and refused with its code.
func TestINV42RefusedWithACode(t *testing.T) {
	t.Parallel()

	change := func(f func(*wire.Envelope)) func(*bundle, wire.Envelope) wire.Signed {
		return func(b *bundle, e wire.Envelope) wire.Signed {
			f(&e)
			return b.sign(e)
		}
	}
	body := func(f func([]byte) []byte) func(*bundle, wire.Envelope) wire.Signed {
		return func(b *bundle, e wire.Envelope) wire.Signed {
			s := b.sign(e)
			s.Body = f(s.Body)
			s.Signature = ed25519.Sign(b.key, s.Body)
			return s
		}
	}
	replace := func(from, to string) func(*bundle, wire.Envelope) wire.Signed {
		return body(func(text []byte) []byte { return bytes.Replace(text, []byte(from), []byte(to), 1) })
	}
	params := func(f func(*wire.ProvisionUserParams)) func(*bundle, wire.Envelope) wire.Signed {
		return change(func(e *wire.Envelope) {
			var p wire.ProvisionUserParams
			if err := json.Unmarshal(e.Params, &p); err != nil {
				panic(err)
			}
			f(&p)
			e.Params, _ = json.Marshal(p)
		})
	}

	for rule, c := range map[string]struct {
		sign func(*bundle, wire.Envelope) wire.Signed
		code wire.Refusal
	}{
		"another node":         {change(func(e *wire.Envelope) { e.Node = ids.New[ids.Node]() }), wire.Misaddressed},
		"expired":              {change(func(e *wire.Envelope) { e.NotBefore, e.ExpiresAt = t0.Add(-time.Hour), t0 }), wire.Expired},
		"of tomorrow":          {change(func(e *wire.Envelope) { e.NotBefore, e.ExpiresAt = t0.Add(6*time.Minute), t0.Add(time.Hour) }), wire.NotYetValid},
		"ends before it":       {change(func(e *wire.Envelope) { e.ExpiresAt = e.NotBefore }), wire.EnvelopeInvalid},
		"newer version":        {change(func(e *wire.Envelope) { e.V = 2 }), wire.VersionUnsupported},
		"another key's name":   {change(func(e *wire.Envelope) { e.Kid = "0002" }), wire.EnvelopeInvalid},
		"unknown type":         {change(func(e *wire.Envelope) { e.Type = "node.exec" }), wire.TypeUnknown},
		"no fence":             {change(func(e *wire.Envelope) { e.Fence = 0 }), wire.EnvelopeInvalid},
		"no allocation":        {change(func(e *wire.Envelope) { e.Allocation = ids.Allocation{} }), wire.EnvelopeInvalid},
		"slots twice":          {change(func(e *wire.Envelope) { e.Slots = append(e.Slots, e.Slots[0]) }), wire.EnvelopeInvalid},
		"a name twice":         {replace(`{"v":1,`, `{"v":1,"v":1,`), wire.EnvelopeInvalid},
		"fence twice":          {replace(`"fence":1,`, `"fence":1,"fence":9,`), wire.EnvelopeInvalid},
		"a name in capitals":   {replace(`"fence":1,`, `"Fence":1,`), wire.EnvelopeInvalid},
		"an unknown field":     {replace(`{"v":1,`, `{"v":1,"sudo":true,`), wire.EnvelopeInvalid},
		"a space":              {replace(`{"v":1,`, `{"v": 1,`), wire.EnvelopeInvalid},
		"a number re-encoded":  {replace(`"fence":1,`, `"fence":1.0,`), wire.EnvelopeInvalid},
		"an escaped letter":    {replace(`"0001"`, `"\u0030001"`), wire.EnvelopeInvalid},
		"something behind":     {body(func(text []byte) []byte { return append(text, ' ', '{', '}') }), wire.EnvelopeInvalid},
		"not an object":        {body(func([]byte) []byte { return []byte(`[]`) }), wire.EnvelopeInvalid},
		"too large":            {body(func([]byte) []byte { return make([]byte, wire.MaxBody+1) }), wire.EnvelopeInvalid},
		"params: unknown":      {replace(`{"user"`, `{"shell":"sh","user"`), wire.ParamsInvalid},
		"params: twice":        {replace(`{"user":"t-1"`, `{"user":"x","user":"t-1"`), wire.ParamsInvalid},
		"params: root":         {params(func(p *wire.ProvisionUserParams) { p.UID = 0 }), wire.ParamsInvalid},
		"params: a system uid": {params(func(p *wire.ProvisionUserParams) { p.UID = 1000 }), wire.ParamsInvalid},
		"params: a path":       {params(func(p *wire.ProvisionUserParams) { p.User = "../root" }), wire.ParamsInvalid},
		"params: other GPUs":   {params(func(p *wire.ProvisionUserParams) { p.GPUs = []string{"GPU-00000000-0000-0000-0000-000000000000"} }), wire.ParamsInvalid},
		"params: an option": {params(func(p *wire.ProvisionUserParams) {
			p.PublicKeys = []string{`command="sh" ` + tenantKey}
		}), wire.ParamsInvalid},
		"params: two lines": {params(func(p *wire.ProvisionUserParams) { p.PublicKeys = []string{tenantKey + "\n" + tenantKey} }), wire.ParamsInvalid},
		"params: no key":    {params(func(p *wire.ProvisionUserParams) { p.PublicKeys = []string{"hello"} }), wire.ParamsInvalid},
		"an unknown key": {func(b *bundle, e wire.Envelope) wire.Signed {
			s := b.sign(e)
			s.Kid = "0002"
			return s
		}, wire.KeyUnknown},
		"a stranger's key": {func(b *bundle, e wire.Envelope) wire.Signed {
			s := b.sign(e)
			_, key, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				panic(err)
			}
			s.Signature = ed25519.Sign(key, s.Body)
			return s
		}, wire.SignatureInvalid},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()

			b := setup(t)
			before := b.world().Version
			a := b.Take(c.sign(b, b.provision(ids.New[ids.Allocation](), 1, b.gpus[0])))
			if wire.CodeOf(a.Refusal) != c.code {
				t.Errorf("%v", a.Refusal)
			}
			// What could not be believed has no task to answer.
			if a.Reply != nil && (a.Reply.Outcome != wire.Refused || a.Reply.Code != c.code) {
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
	if want.Outcome != wire.Succeeded {
		t.Fatalf("%+v", want)
	}
	before := b.world().Version
	for range 2 {
		a := b.Take(b.sign(first))
		if a.Refusal != nil || a.Reply == nil || a.Reply.Task != first.Task || a.Reply.Outcome != wire.Succeeded {
			t.Errorf("%+v", a)
		}
		b.now = b.now.Add(time.Hour) // long expired, and still answered
		b.restart()
	}
	if b.world().Version != before {
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
	before := b.world().Version

	other := b.provision(id, 6, b.gpus[0])
	elsewhere := released
	elsewhere.Nonce = "another"
	twin := b.revoke(id, 6, b.gpus[0])
	late := b.revoke(id, 6, b.gpus[0])
	late.Attempt = 0
	for rule, c := range map[string]struct {
		task wire.Envelope
		code wire.Refusal
	}{
		"lower fence":                {b.provision(id, 5, b.gpus[0]), wire.StaleFence},
		"much lower":                 {b.provision(id, 1, b.gpus[0]), wire.StaleFence},
		"equal fence, other order":   {other, wire.FenceConflict},
		"equal task, other content":  {elsewhere, wire.FenceConflict},
		"equal attempt, other task":  {twin, wire.FenceConflict},
		"equal fence, lower attempt": {late, wire.Replayed},
	} {
		a := b.Take(b.sign(c.task))
		if wire.CodeOf(a.Refusal) != c.code || a.Reply == nil || a.Reply.Code != c.code {
			t.Errorf("%s: %+v", rule, a)
		}
	}
	b.restart()
	if a := b.Take(b.sign(b.provision(id, 5, b.gpus[0]))); wire.CodeOf(a.Refusal) != wire.StaleFence {
		t.Errorf("after a restart: %+v", a)
	}
	if b.world().Version != before {
		t.Error("a stale task acted")
	}
}

func TestALostJournalRefuses(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.Journal = nil
	before := b.world().Version
	a := b.Take(b.sign(b.revoke(ids.New[ids.Allocation](), 1, b.gpus[0])))
	if wire.CodeOf(a.Refusal) != wire.JournalLost || b.world().Version != before {
		t.Errorf("%+v", a)
	}
	probe := b.envelope(ids.Allocation{}, 0, wire.Probe, wire.ProbeParams{}, nil)
	if a := b.Take(b.sign(probe)); a.Refusal != nil {
		t.Errorf("probe: %+v", a)
	}
}

// A GPU goes to the next allocation only when the last one is proven gone.
func TestSlotsMustBeFree(t *testing.T) {
	t.Parallel()

	b := setup(t)
	first, second := ids.New[ids.Allocation](), ids.New[ids.Allocation]()
	b.do(b.provision(first, 1, b.gpus[0]))
	if a := b.Take(b.sign(b.provision(second, 1, b.gpus[0]))); wire.CodeOf(a.Refusal) != wire.SlotBusy {
		t.Errorf("busy: %+v", a)
	}
	b.edit(func(h *sim.Host) { h.Fails = map[string]string{"scrub": "read back differs"} })
	if r := b.do(b.revoke(first, 2, b.gpus[0])); r.Code != wire.ScrubFailed || r.Step != "scrub_after" {
		t.Errorf("%+v", r)
	}
	if a := b.Take(b.sign(b.provision(second, 1, b.gpus[0]))); wire.CodeOf(a.Refusal) != wire.SlotDirty {
		t.Errorf("dirty: %+v", a)
	}
	b.edit(func(h *sim.Host) { h.Fails = nil })
	again := b.revoke(first, 2, b.gpus[0])
	again.Attempt = 2
	if r := b.do(again); r.Outcome != wire.Succeeded || !r.Proof.Clean(b.gpus[:1]) {
		t.Errorf("%+v", r)
	}
	if r := b.do(b.provision(second, 1, b.gpus[0])); r.Outcome != wire.Succeeded {
		t.Errorf("%+v", r)
	}
}
