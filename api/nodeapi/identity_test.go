package nodeapi_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/protocol"
)

// INV-39: 200 at once with one token make one certificate, at the authority and
// in the table.
func TestINV39OneCertificateOf200(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	node := h.declare()
	body, err := json.Marshal(protocol.EnrolRequest{Token: h.token(node), CSR: csrFor(t, newKey(t)), Capability: 2})
	if err != nil {
		t.Fatal(err)
	}
	var won, lost atomic.Int32
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			switch status, code := h.stranger().send("POST", protocol.PathEnrol, body, nil); {
			case status == http.StatusOK:
				won.Add(1)
			case status == http.StatusUnauthorized && code == string(errs.EnrolmentTokenInvalid):
				lost.Add(1)
			default:
				t.Errorf("%d %s", status, code)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || lost.Load() != 199 || h.ca.issued.Load() != 1 || h.count(`SELECT count(*) FROM certificates`) != 1 {
		t.Errorf("%d certificates given, %d made, %d refusals", won.Load(), h.ca.issued.Load(), lost.Load())
	}
}

// INV-39: a token is worth nothing once used, replaced, late or of a node that is
// gone, and makes its own node only, whatever the request contains.
func TestINV39WhatATokenIsNotWorth(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	a, z := h.declare(), h.declare()
	enrol := func(token string) (protocol.EnrolReply, int, string) {
		var reply protocol.EnrolReply
		status, code := h.stranger().call("POST", protocol.PathEnrol, protocol.EnrolRequest{Token: token, CSR: csrFor(t, newKey(t)), Capability: 2}, &reply)
		return reply, status, code
	}
	first := h.token(a)
	second := h.token(a) // ends the first
	if reply, status, code := enrol(second); status != http.StatusOK || reply.Node != a {
		t.Fatalf("%d %s: %s", status, code, reply.Node)
	}
	late, gone := h.token(z), h.declare()
	h.exec(`UPDATE enrolment_tokens SET expires_at = now() - interval '1 second' WHERE node_id = $1`, z)
	retired := h.token(gone)
	h.do(func(tx pgx.Tx) error { return h.Inventory.Retire(t.Context(), tx, gone) })
	banned := h.token(a)
	h.revoke(a)
	diff := pgtest.Diff(t, h.db)
	for name, token := range map[string]string{"replaced": first, "used": second, "late": late, "of a retired node": retired, "revoked": banned, "unknown": "gpe_x"} {
		if _, status, code := enrol(token); status != http.StatusUnauthorized || code != string(errs.EnrolmentTokenInvalid) {
			t.Errorf("%s: %d %s", name, status, code)
		}
	}
	if diff() != "" {
		t.Error(diff())
	}
}

// A token is spent only on a certificate: an authority that is away costs none,
// and one whose certificate came too late to be recorded gets an error.
func TestAnAuthorityThatFailsCostsNoToken(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	node := h.declare()
	request := protocol.EnrolRequest{Token: h.token(node), CSR: csrFor(t, newKey(t)), Capability: 2}
	h.ca.before = func() error { return errs.New(errs.Unavailable, "the authority is away") }
	if status, code := h.stranger().call("POST", protocol.PathEnrol, request, nil); status != http.StatusServiceUnavailable || code != string(errs.Unavailable) {
		t.Fatalf("%d %s", status, code)
	}
	h.ca.before = nil
	h.ca.after = func() { h.revoke(node) } // an operator is faster
	if status, code := h.stranger().call("POST", protocol.PathEnrol, request, nil); status != http.StatusUnauthorized {
		t.Fatalf("%d %s", status, code)
	}
	if n := h.count(`SELECT count(*) FROM certificates`); n != 0 || h.ca.revoked.Load() != 1 {
		t.Errorf("%d certificates, %d disowned", n, h.ca.revoked.Load())
	}
	h.ca.after = nil
	request.Token = h.token(node)
	if status, code := h.stranger().call("POST", protocol.PathEnrol, request, nil); status != http.StatusOK {
		t.Errorf("%d %s", status, code)
	}
}

// An operator re-enrols a node, for example after its certificate expired. The previous certificates
// end, and so does the key of its proofs.
func TestEnrolledAgainEndsWhatWas(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	node := h.declare()
	old := h.join(node)
	proof, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var reply protocol.EnrolReply
	key := newKey(t)
	if status, code := h.stranger().call("POST", protocol.PathEnrol, protocol.EnrolRequest{Token: h.token(node), CSR: csrFor(t, key), Capability: 2, ProofKey: proof}, &reply); status != http.StatusOK {
		t.Fatalf("%d %s", status, code)
	}
	if n := h.count(`SELECT count(*) FROM nodes WHERE id = $1 AND proof_key = $2`, node, []byte(proof)); n != 1 {
		t.Error("the key of its proofs is not that of the request")
	}
	h.pass()
	if status, _ := old.send("GET", protocol.PathTrust, nil, nil); status != http.StatusForbidden {
		t.Errorf("the old certificate: %d", status)
	}
	again := h.peer(node, certificate(t, reply, key), nil)
	if status, _ := again.send("GET", protocol.PathTrust, nil, nil); status != http.StatusOK || h.ca.revoked.Load() != 1 {
		t.Errorf("the new one: %d, %d serials sent to the authority", status, h.ca.revoked.Load())
	}
	if status, code := h.stranger().call("POST", protocol.PathEnrol, protocol.EnrolRequest{Token: h.token(node), CSR: csrFor(t, key), Capability: 2, ProofKey: proof[:31]}, nil); status != http.StatusBadRequest {
		t.Errorf("half a key: %d %s", status, code)
	}
}

// pass makes the caches of the servers expire.
func (h *installation) pass() { h.ahead.Add(int64(time.Second)) }

func (h *installation) exec(sql string, args ...any) {
	h.t.Helper()
	if _, err := h.db.Exec(h.t.Context(), sql, args...); err != nil {
		h.t.Fatal(err)
	}
}

// INV-40: revocation ends a long poll within two seconds by the wall's clock, in a
// server that has heard nothing of it; then neither the connection, nor a resumed
// session, nor a renewal is accepted.
func TestINV40RevocationOverRealTLS(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	node := h.declare()
	p := h.join(node)
	if status, _ := p.send("GET", protocol.PathTrust, nil, nil); status != http.StatusOK {
		t.Fatal("a fresh certificate is not in force")
	}
	polling := make(chan polled, 1)
	go func() {
		var r polled
		r.status, r.code, r.err = p.try("GET", fmt.Sprintf(protocol.PathWait, node), nil, &r.task)
		polling <- r
	}()
	other := h.join(h.declare())
	if status, _ := other.send("GET", protocol.PathTrust, nil, nil); status != http.StatusOK {
		t.Fatal("the certificate of another node is not in force")
	}
	h.revoke(node)
	if r := receive(t, polling, 2*time.Second); r.err != nil || r.status != http.StatusForbidden || r.code != string(errs.CertificateRevoked) {
		t.Errorf("the poll: %+v", r)
	}
	for name, ask := range map[string]func() (int, string){
		"the connection": func() (int, string) { return p.send("GET", protocol.PathTrust, nil, nil) },
		"a new session": func() (int, string) {
			p.CloseIdleConnections() // its cache of sessions stays
			return p.send("GET", protocol.PathTrust, nil, nil)
		},
		"a renewal": func() (int, string) {
			return p.call("POST", fmt.Sprintf(protocol.PathRenew, node), protocol.RenewRequest{CSR: csrFor(t, newKey(t))}, nil)
		},
	} {
		if status, code := ask(); status != http.StatusForbidden || code != string(errs.CertificateRevoked) {
			t.Errorf("%s: %d %s", name, status, code)
		}
	}
	if status, _ := other.send("GET", protocol.PathTrust, nil, nil); status != http.StatusOK {
		t.Errorf("another node: %d", status)
	}
}

// INV-40: a revocation while a renewal is under way wins, whichever of the two
// the database sees first.
func TestINV40RevokedWhileRenewing(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]func(h *installation, revoke func()){
		"before the certificate is made": func(h *installation, revoke func()) { h.ca.before = func() error { revoke(); return nil } },
		"after it is made":               func(h *installation, revoke func()) { h.ca.after = revoke },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newInstallation(t).open()
			node := h.declare()
			p := h.join(node)
			when(h, sync.OnceFunc(func() { h.revoke(node) }))
			status, code := p.call("POST", fmt.Sprintf(protocol.PathRenew, node), protocol.RenewRequest{CSR: csrFor(t, newKey(t))}, nil)
			if status != http.StatusForbidden || code != string(errs.CertificateRevoked) {
				t.Errorf("%d %s", status, code)
			}
			if n := h.count(`SELECT count(*) FROM certificates WHERE status <> 'revoked'`); n != 0 || h.ca.revoked.Load() != 1 {
				t.Errorf("%d certificates survive, %d disowned", n, h.ca.revoked.Load())
			}
		})
	}
}

// INV-40: renewals and a revocation that race end with no certificate in force.
func TestINV40RenewalsRaceARevocation(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	for range 10 {
		node := h.declare()
		serial := fmt.Sprintf("%032x", node.UUID[:8])
		h.do(func(tx pgx.Tx) error {
			_, err := h.Certificates.Renewed(t.Context(), tx, node, pki.Certificate{Serial: serial, NotAfter: time.Now().Add(time.Hour)}, "")
			return err
		})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				_, err := h.Renew(t.Context(), node, serial, func(context.Context, ids.Node) (nodeapi.Grant, error) {
					return nodeapi.Grant{Certificate: pki.Certificate{Serial: ids.New[ids.Object]().String(), NotAfter: time.Now().Add(time.Hour)}}, nil
				})
				if err != nil && errs.CodeOf(err) != errs.CertificateRevoked {
					t.Error(err)
				}
			})
		}
		all.Go(func() { h.revoke(node) })
		all.Wait()
		if n := h.count(`SELECT count(*) FROM certificates WHERE node_id = $1 AND status <> 'revoked'`, node); n != 0 {
			t.Fatalf("%d certificates survive their node's revocation", n)
		}
	}
}

// A retired node is rejected, though its certificate was not revoked.
func TestINV40RetiredIsSilent(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	node := h.declare()
	p := h.join(node)
	h.do(func(tx pgx.Tx) error { return h.Inventory.Retire(t.Context(), tx, node) })
	h.pass()
	if status, code := p.send("GET", protocol.PathTrust, nil, nil); status != http.StatusForbidden || code != string(errs.CertificateRevoked) {
		t.Errorf("%d %s", status, code)
	}
	issue := func(context.Context, ids.Node) (nodeapi.Grant, error) { return nodeapi.Grant{}, nil }
	if _, err := h.Renew(t.Context(), node, "01", issue); errs.CodeOf(err) != errs.CertificateRevoked {
		t.Errorf("a renewal: %v", err)
	}
}

// What a node should trust is signed by the task key that it trusts already. The statement key, which the
// node API has, signs nothing of it.
func TestTrustComesSigned(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	p := h.join(h.declare())
	before := h.keys.Public()
	set := func() protocol.KeySet {
		var trust protocol.Trust
		if status, _ := p.send("GET", protocol.PathTrust, nil, &trust); status != http.StatusOK || len(trust.Sets) == 0 {
			t.Fatal("no set of keys", status)
		}
		newest := trust.Sets[len(trust.Sets)-1]
		if _, err := protocol.OpenKeySet(newest, h.trust.Statements.Public()); err == nil {
			t.Error("INV-76: the statement key has signed a set of keys")
		}
		s, err := protocol.OpenKeySet(newest, before)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := set()
	if _, err := h.keys.Keys.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := set() // signed by what was trusted before
	if len(first.TaskKeys) != 1 || len(second.TaskKeys) != 2 || second.Sequence <= first.Sequence || len(second.StatementKeys) != 1 {
		t.Errorf("%+v\n%+v", first, second)
	}
	if err := h.keys.Keys.Retire(t.Context(), h.keys.Active()); err != nil {
		t.Fatal(err)
	}
	before = second.TaskKeys
	if third := set(); len(third.TaskKeys) != 1 || third.Sequence <= second.Sequence {
		t.Errorf("%+v", third)
	}
}

// The server requests a renewal from a node with an outdated trust state, once its last response is old.
func TestRecalledAfterARollOver(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	node := h.declare()
	p := h.join(node)
	sequence := int64(0)
	asked := func(p *peer) bool {
		sequence++
		var reply protocol.ReportReply
		if status, code := p.call("PUT", fmt.Sprintf(protocol.PathReport, node), protocol.Report{Capability: 2, Boot: 1, Sequence: sequence, Complete: true}, &reply); status != http.StatusOK {
			t.Fatalf("%d %s", status, code)
		}
		return reply.Renew
	}
	if asked(p) {
		t.Error("a renewal was requested though nothing has changed")
	}
	if err := h.local.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked(p)
	h.ahead.Add(int64(3 * time.Minute)) // it is due
	if !asked(p) {
		t.Fatal("no renewal was requested after the trusted authority changed")
	}
	var reply protocol.EnrolReply
	key := newKey(t)
	if status, code := p.call("POST", fmt.Sprintf(protocol.PathRenew, node), protocol.RenewRequest{CSR: csrFor(t, key)}, &reply); status != http.StatusOK {
		t.Fatalf("%d %s", status, code)
	}
	if n := len(pki.BundleFingerprints([]byte(reply.Trust.CAs))); n != 2 {
		t.Errorf("got %d authorities", n)
	}
	if asked(h.peer(node, certificate(t, reply, key), nil)) {
		t.Error("a renewal was requested again")
	}
}

// The agent's binary can be downloaded without a certificate, and is the one whose
// digest an operator passes on.
func TestTheAgentIsServed(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	dir := t.TempDir()
	h.server.Binaries = &nodeapi.Binaries{Dir: dir}
	h.open()
	body := bytes.Repeat([]byte("agent"), 1<<18)
	here := runtime.GOOS + "-" + runtime.GOARCH
	write := func(name string, body []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	get := func(platform string) (int, []byte) {
		response, err := h.stranger().Get(h.url + fmt.Sprintf(protocol.PathBinary, platform))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		got, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, got
	}
	if status, _ := get(here); status != http.StatusNotFound {
		t.Errorf("before there is one: %d", status)
	}
	write("gpuaas-agent", body)
	write("secret", []byte("key"))
	found, err := h.server.Binaries.Find(here)
	if sum := sha256.Sum256(body); err != nil || found.Digest != hex.EncodeToString(sum[:]) {
		t.Errorf("%+v, %v", found, err)
	}
	if status, got := get(here); status != http.StatusOK || !bytes.Equal(got, body) {
		t.Errorf("%d, %d bytes", status, len(got))
	}
	for _, platform := range []string{"linux-mips", "..%2fsecret", "secret", "windows-amd64"} {
		if status, _ := get(platform); status != http.StatusNotFound {
			t.Errorf("%s: %d", platform, status)
		}
	}
	write("gpuaas-agent-linux-arm64", []byte("arm"))
	write("gpuaas-agent", []byte("next"))
	if _, got := get("linux-arm64"); string(got) != "arm" {
		t.Errorf("arm64 got %q", got)
	}
	if again, err := h.server.Binaries.Find(here); err != nil || again.Digest == found.Digest {
		t.Errorf("a new build has the old digest, %v", err)
	}
}

var _ secret.Authority = (*office)(nil)

// INV-41: two certificates × every endpoint, on real services: neither certificate reads or changes
// anything of the other node, and a caller without a certificate gets only the binary and the
// enrolment.
func TestINV41EveryEndpoint(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	a, z := h.declare(), h.declare()
	pa := h.join(a)
	pz := h.join(z)
	nobody := h.stranger()
	diff := pgtest.Diff(t, h.db)
	of := 0
	for _, pattern := range nodeapi.Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		if strings.Contains(path, "{node}") {
			of++
			for who, c := range map[ids.Node]*peer{a: pz, z: pa} {
				asked := strings.NewReplacer("{node}", who.String(), "{task}", ids.New[ids.Task]().String()).Replace(path)
				if status, code := c.send(method, asked, []byte("{}"), nil); status != http.StatusForbidden || code != string(errs.NodeIdentityMismatch) {
					t.Errorf("%s of another: %d %s", pattern, status, code)
				}
			}
		}
		if pattern == "POST "+protocol.PathEnrol || strings.HasSuffix(path, "{platform}") {
			continue
		}
		asked := strings.NewReplacer("{node}", a.String(), "{task}", ids.New[ids.Task]().String()).Replace(path)
		if status, code := nobody.send(method, asked, []byte("{}"), nil); status != http.StatusUnauthorized || code != string(errs.CertificateRequired) {
			t.Errorf("%s of an unknown node: %d %s", pattern, status, code)
		}
	}
	if of < 5 || diff() != "" {
		t.Errorf("%d endpoints about a node\n%s", of, diff())
	}
}
