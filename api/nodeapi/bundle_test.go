package nodeapi_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/secrettest"
	"github.com/gpuaas/gpuaas/protocol"
)

const domain = "gpuaas.test"

// services behave as those of the server do: tokens work once, serials are valid
// until they are revoked, a task is delivered once.
type services struct {
	mu      sync.Mutex
	tokens  map[string]ids.Node
	valid   map[string]ids.Node // by serial
	mail    map[ids.Node][]protocol.Signed
	results []protocol.Result
	steps   []protocol.Progress
	reports []protocol.Report
	polled  chan struct{} // receives when a poll has read an empty mailbox
	failure error         // what Finish and Report return
}

func (r *services) Enrol(ctx context.Context, e nodeapi.Enrolment, issue nodeapi.Issue) (a nodeapi.Admitted, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	node, ok := r.tokens[e.Token]
	if !ok {
		return a, errs.New(errs.EnrolmentTokenInvalid, "the enrolment token is unknown, used or expired")
	}
	a.Node = node
	if a.Grant, err = issue(ctx, node); err != nil {
		return a, err
	}
	delete(r.tokens, e.Token)
	r.valid[a.Grant.Certificate.Serial] = node
	return a, nil
}

func (r *services) Renew(ctx context.Context, node ids.Node, _ string, issue nodeapi.Issue) (nodeapi.Grant, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g, err := issue(ctx, node)
	r.valid[g.Certificate.Serial] = node
	return g, err
}

func (r *services) Find(ctx context.Context, node ids.Node, serial string) (secret.InForce, error) {
	return secret.InForce{}, r.Check(ctx, node, serial)
}

func (r *services) Check(_ context.Context, node ids.Node, serial string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.valid[serial] != node {
		return errs.New(errs.CertificateRevoked, "the certificate is not in force")
	}
	return nil
}

func (r *services) Fallen(_ context.Context, serials []string) (fallen []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range serials {
		if _, ok := r.valid[s]; !ok {
			fallen = append(fallen, s)
		}
	}
	return fallen, nil
}

func (r *services) Next(_ context.Context, nodes ...ids.Node) (map[ids.Node]protocol.Signed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := map[ids.Node]protocol.Signed{}
	for _, node := range nodes {
		if len(r.mail[node]) == 0 {
			select {
			case r.polled <- struct{}{}:
			default:
			}
			continue
		}
		taken[node] = r.mail[node][0]
		r.mail[node] = r.mail[node][1:]
	}
	return taken, nil
}

func (r *services) Finish(_ context.Context, _ ids.Node, result protocol.Result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, result)
	return r.failure
}

func (r *services) Step(_ context.Context, _ ids.Node, _ ids.Task, p protocol.Progress) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, p)
	return nil
}

func (r *services) Report(_ context.Context, _ ids.Node, report protocol.Report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = append(r.reports, report)
	return r.failure
}

type bundle struct {
	*services

	url   string
	ca    *pki.Local
	keys  secret.Signer
	hints *hint.Bus
	stop  context.CancelFunc
	ended chan error
}

func setup(t testing.TB, options ...func(*nodeapi.Server)) *bundle {
	t.Helper()
	dir := t.TempDir()
	ca, err := pki.Open(dir, clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := secret.OpenSigner(dir)
	if err != nil {
		t.Fatal(err)
	}
	trust, err := secrettest.NewTrusted(keys, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &bundle{
		services: &services{
			tokens: map[string]ids.Node{}, valid: map[string]ids.Node{}, mail: map[ids.Node][]protocol.Signed{}, polled: make(chan struct{}, 1),
		},
		url: "https://" + l.Addr().String(), ca: ca, keys: keys, hints: &hint.Bus{}, stop: stop, ended: make(chan error, 1),
	}
	server := &nodeapi.Server{
		TrustDomain: domain, Hosts: []string{"127.0.0.1"}, CA: ca, Statements: trust.Statements, Trusted: trust, Nodes: b.services, Tasks: b.services, Reports: b.services,
		Hints: b.hints, Log: slog.New(slog.DiscardHandler), Relook: time.Hour, // only a hint may end a poll here
		ReportEvery: func(ids.Node) time.Duration { return 7 * time.Second },
	}
	for _, option := range options {
		option(server)
	}
	go func() { b.ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-b.ended; err != nil {
			t.Error(err)
		}
		b.ended <- nil
	})
	return b
}

// peer calls the server with a certificate, or without.
type peer struct {
	*http.Client

	t    testing.TB
	url  string
	node ids.Node
	key  *ecdsa.PrivateKey
	keys map[string][]byte // task keys
}

func (b *bundle) stranger(t testing.TB) *peer {
	t.Helper()
	return b.peer(t, ids.Node{}, tls.Certificate{})
}

func (b *bundle) peer(t testing.TB, node ids.Node, cert tls.Certificate) *peer {
	t.Helper()
	config, err := pki.ClientTLS(b.ca.Bundle(), func() (*tls.Certificate, error) { return &cert, nil }, clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &peer{Client: &http.Client{Transport: transport}, t: t, url: b.url, node: node}
}

func csrFor(t testing.TB, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func mustURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// enrolled is a node with a certificate of the test's authority.
func (b *bundle) enrolled(t testing.TB) *peer {
	t.Helper()
	node, token, key := ids.New[ids.Node](), rand.Text(), newKey(t)
	b.mu.Lock()
	b.tokens[token] = node
	b.mu.Unlock()
	var reply protocol.EnrolReply
	status, _ := b.stranger(t).call("POST", protocol.PathEnrol, protocol.EnrolRequest{Token: token, CSR: csrFor(t, key), Hostname: "gpu-01", Capability: 1}, &reply)
	if status != http.StatusOK || reply.Node != node || reply.ReportEvery != 7 {
		t.Fatalf("enrolled as %v: %d", reply.Node, status)
	}
	p := b.peer(t, node, certificate(t, reply, key))
	p.key = key
	return p
}

func certificate(t testing.TB, reply protocol.EnrolReply, key *ecdsa.PrivateKey) tls.Certificate {
	t.Helper()
	cert := tls.Certificate{PrivateKey: key}
	for block, rest := pem.Decode([]byte(reply.Certificate)); block != nil; block, rest = pem.Decode(rest) {
		cert.Certificate = append(cert.Certificate, block.Bytes)
	}
	return cert
}

// call returns the status and, of a rejection, the code.
func (p *peer) call(method, path string, body, into any) (int, string) {
	p.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.send(method, path, text, into)
}

func (p *peer) send(method, path string, text []byte, into any) (int, string) {
	p.t.Helper()
	status, code, err := p.try(method, path, text, into)
	if err != nil {
		p.t.Errorf("%s %s: %v", method, path, err)
	}
	return status, code
}

func (p *peer) try(method, path string, text []byte, into any) (int, string, error) {
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, bytes.NewReader(text))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := p.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", err
	}
	if response.StatusCode >= 400 {
		var problem protocol.Problem
		if err := json.Unmarshal(reply, &problem); err != nil || problem.CorrelationID == "" || problem.Message == "" {
			p.t.Errorf("%s %s answered %q", method, path, reply)
		}
		if reply, ok := into.(*protocol.ReportReply); ok {
			reply.Ack = problem.Ack
		}
		return response.StatusCode, problem.Code, nil
	}
	if into != nil && len(reply) > 0 {
		return response.StatusCode, "", json.Unmarshal(reply, into)
	}
	return response.StatusCode, "", nil
}
