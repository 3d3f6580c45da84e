package helper_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// raw is a hostile half that speaks the protocol as it likes.
type raw struct {
	t    *testing.T
	conn net.Conn
}

func (b *bundle) raw(t *testing.T) raw {
	t.Helper()
	conn, err := net.Dial("unix", b.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return raw{t, conn}
}

func (r raw) send(text string) {
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	_, _ = r.conn.Write(frame) // it may have hung up already
}

// hungUp returns whether the helper ends the connection within d.
func (r raw) hungUp(d time.Duration) bool {
	r.t.Helper()
	_ = r.conn.SetReadDeadline(time.Now().Add(d))
	_, err := io.Copy(io.Discard, r.conn)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// A compromised network process can deliver tasks, but it cannot create them.
func TestAHostileNetworkHalfExecutesNothing(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.start()
	before := b.host().Version
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := ids.New[ids.Allocation]()
	forged := func(change func(*protocol.Envelope), key ed25519.PrivateKey) protocol.Signed {
		e := b.provision(id, 1)
		change(&e)
		s := b.sign(e)
		if key != nil {
			s.Signature = ed25519.Sign(key, s.Body)
		}
		return s
	}
	none := func(*protocol.Envelope) {}
	bent := forged(none, nil)
	bent.Body[40] ^= 1
	own := protocol.KeySet{V: protocol.Version, Kid: "0009", Sequence: 9, TaskKeys: map[string][]byte{"0009": stranger.Public().(ed25519.PublicKey)}, StatementKeys: b.statementKeys()}
	body, err := own.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.UpdateTrust(t.Context(), []protocol.Signed{{Kid: "0009", Body: body, Signature: ed25519.Sign(stranger, body)}}); err == nil {
		t.Error("keys without a chain were accepted")
	}
	for rule, x := range map[string]struct {
		task protocol.Signed
		code protocol.RejectReason
	}{
		"signed by itself":  {forged(none, stranger), protocol.SignatureInvalid},
		"a bit turned":      {bent, protocol.SignatureInvalid},
		"another node's":    {forged(func(e *protocol.Envelope) { e.Node = ids.New[ids.Node]() }, nil), protocol.Misaddressed},
		"expired":           {forged(func(e *protocol.Envelope) { e.NotBefore, e.ExpiresAt = e.NotBefore.Add(-time.Hour), e.NotBefore }, nil), protocol.Expired},
		"of its own keys":   {forged(func(e *protocol.Envelope) { e.Kid = "0009" }, stranger), protocol.SignatureInvalid},
		"of no known type":  {forged(func(e *protocol.Envelope) { e.Type = "node.shell" }, nil), protocol.TypeUnknown},
		"without a handler": {b.sign(b.envelope(ids.Allocation{}, 1, protocol.GPUReset, protocol.GPUResetParams{GPU: b.gpus[0]})), protocol.TypeUnknown},
	} {
		if a, err := c.Receive(t.Context(), x.task); err != nil || protocol.CodeOf(a.Rejection) != x.code {
			t.Errorf("%s: %v, %v", rule, a.Rejection, err)
		}
	}
	if now := b.host(); now.Version != before || len(now.Accounts) > 0 {
		t.Errorf("something was executed: %+v", now)
	}
}

// A connection of another uid than the network process is closed before a byte is read.
func TestAnotherUIDIsRejected(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.uid = os.Getuid() + 1
	b.start()
	before := b.host().Version
	r := b.raw(t)
	hello(t, r)
	text, err := json.Marshal(map[string]any{"id": 1, "call": "take", "signed": b.sign(b.provision(ids.New[ids.Allocation](), 1))})
	if err != nil {
		t.Fatal(err)
	}
	r.send(string(text))
	if !r.hungUp(5 * time.Second) {
		t.Error("a stranger is listened to")
	}
	if b.host().Version != before {
		t.Error("a foreign task was executed")
	}
}

func hello(t *testing.T, r raw) {
	t.Helper()
	r.send(`{"id":0,"call":"hello","protocol":2,"allocation_id":"00000000-0000-0000-0000-000000000000","task_id":"00000000-0000-0000-0000-000000000000"}`)
}

func TestBadFramesEndTheConnection(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.start()
	for rule, attack := range map[string]func(raw){
		"oversized":          func(r raw) { _, _ = r.conn.Write([]byte{0x7f, 0xff, 0xff, 0xff}) },
		"just oversized":     func(r raw) { r.send(strings.Repeat("x", 256<<10+1)) },
		"empty":              func(r raw) { r.send("") },
		"not JSON":           func(r raw) { r.send("GET / HTTP/1.1\r\n\r\n") },
		"an unknown field":   func(r raw) { r.send(`{"id":1,"call":"hello","protocol":2,"sudo":true}`) },
		"no greeting":        func(r raw) { r.send(`{"id":1,"call":"look"}`) },
		"another protocol":   func(r raw) { r.send(`{"id":1,"call":"hello","protocol":1}`) },
		"slow":               func(r raw) { _, _ = r.conn.Write([]byte{0, 0}) },
		"silent":             func(raw) {},
		"greets, then lies":  func(r raw) { hello(r.t, r); r.send("nonsense") },
		"greets, then stops": func(r raw) { hello(r.t, r); _, _ = r.conn.Write([]byte{0}) },
	} {
		r := b.raw(t)
		attack(r)
		if !r.hungUp(10 * time.Second) {
			t.Errorf("%s: still connected", rule)
		}
		r.conn.Close()
	}
	c, h := b.connect() // and afterwards the seat is free
	wait(t, "a greeting", h.met)
	if _, err := c.Inspect(t.Context()); err != nil {
		t.Error(err)
	}
}

// One is seated; a thousand who crowd in behind are hung up on, and cost nothing
// that stays.
func TestAThousandConnections(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	for i := range 1000 {
		conn, err := net.Dial("unix", b.socket)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		r := raw{t, conn}
		if i%100 == 0 && !r.hungUp(5*time.Second) {
			t.Fatalf("connection %d stays open", i)
		}
		defer conn.Close()
	}
	if report, err := c.Inspect(t.Context()); err != nil || !report.Complete {
		t.Errorf("%+v, %v", report, err)
	}
}
