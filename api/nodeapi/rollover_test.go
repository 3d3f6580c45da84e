package nodeapi_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/protocol"
)

// member is an agent of a simulated fleet: what it has, what it trusts, and
// when it renews. It calls the handlers of the node API; the handshake is both sides'
// verification of the other's chain, by the fleet's clock.
type member struct {
	h       *installation
	handler http.Handler
	served  *atomic.Pointer[tls.Certificate] // the server's certificate of this hour
	node    ids.Node
	leaf    *x509.Certificate
	below   *x509.Certificate
	trust   protocol.Trust
	task    map[string][]byte // the keys that its helper trusts
	last    int64
	share   int
	asleep  bool
	reports int64
}

// shake is the handshake, as both ends do it.
func (m *member) shake() (*tls.ConnectionState, error) {
	now := m.h.clock.Now()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(m.trust.CAs))
	served := m.served.Load()
	between := x509.NewCertPool()
	for _, der := range served.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		between.AddCert(c)
	}
	if _, err := served.Leaf.Verify(x509.VerifyOptions{DNSName: "127.0.0.1", Roots: roots, Intermediates: between, CurrentTime: now}); err != nil {
		return nil, fmt.Errorf("the node does not trust the server: %w", err)
	}
	state := &tls.ConnectionState{HandshakeComplete: true}
	if m.leaf == nil {
		return state, nil
	}
	own := x509.NewCertPool()
	own.AddCert(m.below)
	chains, err := m.leaf.Verify(x509.VerifyOptions{Roots: m.h.local.Pool(), Intermediates: own, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return nil, fmt.Errorf("the server does not trust the node: %w", err)
	}
	state.VerifiedChains, state.PeerCertificates = chains, []*x509.Certificate{m.leaf, m.below}
	return state, nil
}

func (m *member) call(method, path string, body, into any) error {
	state, err := m.shake()
	if err != nil {
		return err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r := httptest.NewRequestWithContext(m.h.t.Context(), method, path, bytes.NewReader(text))
	r.Header.Set("Content-Type", "application/json")
	r.TLS = state
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return fmt.Errorf("%s: %d %s", path, w.Code, w.Body)
	}
	return json.Unmarshal(w.Body.Bytes(), into)
}

// obtain enrols with a token, or renews without one.
func (m *member) obtain(token string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	var reply protocol.EnrolReply
	if token != "" {
		err = m.call("POST", protocol.PathEnrol, protocol.EnrolRequest{Token: token, CSR: csrFor(m.h.t, key), Capability: 2}, &reply)
	} else {
		err = m.call("POST", fmt.Sprintf(protocol.PathRenew, m.node), protocol.RenewRequest{CSR: csrFor(m.h.t, key)}, &reply)
	}
	if err != nil {
		return err
	}
	chain := certificate(m.h.t, reply, key).Certificate
	if m.leaf, err = x509.ParseCertificate(chain[0]); err == nil {
		m.below, err = x509.ParseCertificate(chain[1])
	}
	if err != nil {
		return err
	}
	m.trust = reply.Trust
	return m.trustKeys()
}

// trustKeys does what the helper of an agent does with the sets of keys.
func (m *member) trustKeys() (err error) {
	if m.task == nil {
		m.task = m.trust.TaskKeys // an operator confirmed the node
	}
	for _, signed := range m.trust.Sets {
		var s protocol.KeySet
		if s, err = protocol.OpenKeySet(signed, m.task); err == nil && s.Sequence >= m.last {
			m.task, m.last = s.TaskKeys, s.Sequence
		}
	}
	if err != nil {
		return fmt.Errorf("the helper rejects the newest set of keys: %w", err)
	}
	return nil
}

// beat is an hour of an agent's life: it renews when half of the certificate's
// life is over, and otherwise requests the trust state, as one that reports does.
func (m *member) beat(random int) error {
	life := m.leaf.NotAfter.Sub(m.leaf.NotBefore)
	half := m.leaf.NotBefore.Add(life * time.Duration(40+m.share) / 100)
	if !m.h.clock.Now().Before(half) {
		return m.obtain("")
	}
	if random%4 != 0 {
		return nil
	}
	var reply protocol.ReportReply
	m.reports++
	report := protocol.Report{Capability: 2, Boot: 1, Sequence: m.reports, Complete: true}
	if err := m.call("PUT", fmt.Sprintf(protocol.PathReport, m.node), report, &reply); err != nil || !reply.Renew {
		return err
	}
	return m.obtain("")
}

// INV-48: a thousand agents over two roll-overs of the authority and of the task
// keys, one in twenty asleep for some of the hours: none is lost, and none ever
// meets a server or a task that it does not trust.
func TestINV48AThousandAgentsOverTwoRollOvers(t *testing.T) {
	t.Parallel()
	const size, workers = 1000, 8
	h := newInstallation(t)
	handler := h.server.Handler()
	fleet := make([]*member, size)
	bundle, served := string(h.local.Bundle()), &atomic.Pointer[tls.Certificate]{}
	certify := func() {
		cert, err := h.local.Server(t.Context(), []string{"127.0.0.1"}, 24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		served.Store(&cert)
	}
	certify()
	each := func(do func(i int, m *member) error) {
		t.Helper()
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for i := w; i < size; i += workers {
					if err := do(i, fleet[i]); err != nil {
						t.Errorf("agent %d: %v", i, err)
						return
					}
				}
			})
		}
		all.Wait()
		if t.Failed() {
			t.FailNow()
		}
	}
	each(func(i int, _ *member) error {
		node := h.declare()
		fleet[i] = &member{h: h, handler: handler, served: served, node: node, trust: protocol.Trust{CAs: bundle}, share: i % 21}
		return fleet[i].obtain(h.token(node))
	})
	hour := func(n int) {
		h.ahead.Add(int64(time.Hour))
		certify()
		each(func(i int, m *member) error {
			if m.asleep = (i+n/3)%20 == 0; m.asleep {
				return nil
			}
			return m.beat(i + n)
		})
		signed := protocol.Signed{Kid: h.keys.Active(), Body: []byte("task")}
		signature, err := h.keys.Sign(t.Context(), signed.Kid, signed.Body)
		if err != nil || len(signature) == 0 {
			t.Fatal(err)
		}
		for i, m := range fleet {
			if _, ok := m.task[signed.Kid]; !ok {
				t.Fatalf("hour %d: agent %d does not trust key %s, which signs", n, i, signed.Kid)
			}
		}
	}
	hours := 0
	for range 2 {
		if err := h.local.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := h.keys.Keys.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		// INV-65: these renew while the old authority still signs, and receive the new root with it. They
		// renew again.
		each(func(i int, m *member) error {
			if i%3 != 0 {
				return nil
			}
			return m.obtain("")
		})
		for behind := size; behind > 0; hours++ {
			hour(hours)
			behind = h.behind()
			if hours > 60 {
				t.Fatalf("%d nodes do not know after %d hours", behind, hours)
			}
		}
		if err := h.local.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := h.keys.Keys.Retire(t.Context(), h.keys.Active()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			hour(hours)
			hours++
		}
	}
	each(func(_ int, m *member) error { return m.obtain("") })
	each(func(_ int, m *member) error {
		return m.call("GET", protocol.PathTrust, struct{}{}, &protocol.Trust{}) // the first use
	})
	if got := h.local.Generations(); len(got) != 1 || got[0].Number != 3 || h.behind() != 0 {
		t.Errorf("%+v, %d behind", got, h.behind())
	}
	t.Logf("%d agents, %d hours, %d certificates", size, hours, h.ca.issued.Load())
}

// behind counts the nodes whose trust state is outdated.
func (h *installation) behind() (n int) {
	h.t.Helper()
	all, err := h.Certificates.Newest(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	now, generations := secret.Stamp(h.local.Bundle(), h.keys.Public(), h.trust.Statements.Public(), h.trust.Relays.Public()), h.local.Generations()
	for _, c := range all {
		if !c.Follows(now, generations[len(generations)-1].Issuer) {
			n++
		}
	}
	return n
}

// A node whose certificate is of an authority that was removed is rejected
// by the handshake itself, by a server that ran all the time.
func TestARemovedAuthorityIsRejectedWithoutARestart(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	p := h.join(h.declare())
	if err := h.local.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.ahead.Add(int64(time.Minute))
	p.CloseIdleConnections()
	if status, _ := p.send("GET", protocol.PathTrust, nil, nil); status != http.StatusOK {
		t.Fatalf("during the overlap: %d", status)
	}
	late := h.join(h.declare()) // of the new authority, with both in its trust state
	if status, _ := late.send("GET", protocol.PathTrust, nil, nil); status != http.StatusOK {
		t.Fatalf("of the new authority: %d", status)
	}
	if err := h.local.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.CloseIdleConnections()
	if _, _, err := p.try("GET", protocol.PathTrust, nil, nil); err == nil {
		t.Error("a certificate of the removed authority was accepted")
	}
	late.CloseIdleConnections()
	if status, _, err := late.try("GET", protocol.PathTrust, nil, nil); err != nil || status != http.StatusOK {
		t.Errorf("of the authority that is left: %d, %v", status, err)
	}
}
