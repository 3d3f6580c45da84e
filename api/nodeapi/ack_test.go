package nodeapi_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

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

// Host keys count only with the signature of the helper: the network process could name keys of another server.
func TestHostKeysAreThoseOfTheHelper(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	p := h.join(h.declare())
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.db.Exec(t.Context(), `UPDATE nodes SET proof_key = $1`, []byte(public)); err != nil {
		t.Fatal(err)
	}
	first, second := hostKeyLine(t), hostKeyLine(t)
	sequence := int64(0)
	report := func(keys []string, sign, change func(*protocol.Report)) (code string) {
		sequence++
		r := protocol.Report{Capability: 2, Boot: 7, Sequence: sequence, Complete: true, Nonce: strings.Repeat("0f", 16), HostKeys: keys}
		sign(&r)
		change(&r)
		_, code = p.call("PUT", fmt.Sprintf(protocol.PathReport, p.node), r, nil)
		return code
	}
	signed := func(r *protocol.Report) {
		if err := r.SignOrigin(key, p.node); err != nil {
			t.Fatal(err)
		}
	}
	asIs := func(*protocol.Report) {}
	stored := func() (keys []string) {
		if err := h.db.QueryRow(t.Context(), `SELECT host_keys FROM node_host_keys WHERE node_id = $1`, p.node).Scan(&keys); err != nil {
			t.Fatal(err)
		}
		return keys
	}
	if code := report([]string{first}, signed, asIs); code != "" || !slices.Equal(stored(), []string{first}) {
		t.Errorf("the first key: %q, %v", code, stored())
	}
	if code := report([]string{first}, signed, func(r *protocol.Report) { r.HostKeys = []string{second} }); code != "validation_error" || !slices.Equal(stored(), []string{first}) {
		t.Errorf("a replaced key: %q, %v", code, stored())
	}
	if code := report([]string{"ssh-rsa x"}, signed, asIs); code != "validation_error" {
		t.Errorf("no key: %q", code)
	}
	if code := report([]string{first, second}, signed, asIs); code != "" || !slices.Equal(stored(), []string{first, second}) {
		t.Errorf("a second key: %q, %v", code, stored())
	}
}

func hostKeyLine(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return protocol.HostKeyLine(key)
}
