package nodeapi_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/protocol"
)

// signed reports with a nonce and, with a key, the signature of a helper.
func (p *peer) signed(key ed25519.PrivateKey, boot, sequence int64) (ack protocol.ReportAck, code string) {
	p.t.Helper()
	r := protocol.Report{Capability: 2, Boot: boot, Sequence: sequence, Complete: true, Nonce: strings.Repeat("0f", 16)}
	if key != nil {
		if err := r.SignOrigin(key, p.node); err != nil {
			p.t.Fatal(err)
		}
	}
	var reply protocol.ReportReply
	_, code = p.call("PUT", fmt.Sprintf(protocol.PathReport, p.node), r, &reply)
	if len(reply.Ack.Body) == 0 {
		return ack, code
	}
	ack, err := protocol.OpenReportAck(reply.Ack, p.keys)
	if err != nil || ack.Node != p.node || ack.Nonce != r.Nonce {
		p.t.Fatal(ack, err)
	}
	return ack, code
}

// INV-80: the network process of a node reports a later boot, so that the control plane instructs the helper to
// drop its journal. Only the helper can create a later boot, because the proof key signs it.
func TestINV80OnlyTheHelperCreatesALaterBoot(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	p := h.join(h.declare())
	p.keys = h.trust.Statements.Public()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.db.Exec(t.Context(), `UPDATE nodes SET proof_key = $1`, []byte(public)); err != nil {
		t.Fatal(err)
	}
	later := h.clock.Now().Unix()
	for n, c := range []struct {
		key            ed25519.PrivateKey
		boot, sequence int64
		code           string
		ack            protocol.ReportAck
	}{
		{nil, later, 1, "", protocol.ReportAck{Accepted: true}},                  // not signed
		{key, 7, 1, "", protocol.ReportAck{Accepted: true, Verified: true}},      // the helper follows it
		{nil, later, 2, "stale_report", protocol.ReportAck{Boot: 7}},             // and nothing unsigned follows the helper
		{other, later, 3, "validation_error", protocol.ReportAck{}},              // nor does another key
		{key, 7, 2, "", protocol.ReportAck{Accepted: true, Verified: true}},      //
		{key, 6, 9, "stale_report", protocol.ReportAck{Boot: 7, Verified: true}}, // an old disk
		{key, 8, 1, "", protocol.ReportAck{Accepted: true, Verified: true}},      //
		{key, 7, 3, "stale_report", protocol.ReportAck{Boot: 8, Verified: true}}, //
		{nil, 1 << 62, 1, "validation_error", protocol.ReportAck{}},              //
	} {
		ack, code := p.signed(c.key, c.boot, c.sequence)
		ack.V, ack.Kid, ack.Nonce, ack.Node = 0, "", "", c.ack.Node
		if code != c.code || ack != c.ack {
			t.Errorf("report %d: %q %+v, want %q %+v", n, code, ack, c.code, c.ack)
		}
	}
}
