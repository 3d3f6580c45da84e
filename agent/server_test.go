package agent_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent"
	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	domain    = "gpuaas.test"
	tenantKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl tenant"
)

// server is a control plane with a mailbox per node: real TLS, one token per node,
// tasks repeated until their result is in.
type server struct {
	t    testing.TB
	ca   *pki.Local
	keys *pki.Keyring
	// statements sign responses to reports.
	statements *pki.Keyring
	addr       string

	mu       sync.Mutex
	server   *http.Server
	listener net.Listener
	life     time.Duration // of certificates
	first    int           // seconds between reports, set at enrolment; 2 when zero
	every    int           // seconds between reports, set with each; 0: not set
	tokens   map[string]ids.Node
	mail     map[ids.Node][]protocol.Signed
	results  map[ids.Task][]protocol.Result
	reports  map[ids.Node]protocol.Report
	enrolled map[ids.Node]int
	renewed  map[ids.Node]int
	news     chan struct{} // closed and replaced when something came in
	wake     chan struct{} // the same for mail
	changed  chan struct{} // the same for polling
	polling  map[ids.Node]int
	// storageKey answers requests for the access keys of an allocation.
	storageKey func(allocation string) (int, protocol.MountKeys)
}

func newServer(t testing.TB) *server {
	t.Helper()
	dir := t.TempDir()
	ca, err := pki.Open(dir, clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	statements, err := pki.OpenKeyring(filepath.Join(dir, "statements"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pki.OpenKeyring(dir)
	if err != nil {
		t.Fatal(err)
	}
	d := &server{
		t: t, ca: ca, keys: keys, statements: statements, addr: "127.0.0.1:0", life: time.Hour, tokens: map[string]ids.Node{}, mail: map[ids.Node][]protocol.Signed{},
		results: map[ids.Task][]protocol.Result{}, reports: map[ids.Node]protocol.Report{}, enrolled: map[ids.Node]int{}, renewed: map[ids.Node]int{},
		news: make(chan struct{}), wake: make(chan struct{}),
		changed: make(chan struct{}), polling: map[ids.Node]int{},
	}
	d.open()
	t.Cleanup(d.shut)
	return d
}

// open listens, where it listened before if it did.
func (d *server) open() {
	d.t.Helper()
	l, err := net.Listen("tcp", d.addr)
	if err != nil {
		d.t.Fatal(err)
	}
	d.addr = l.Addr().String()
	cert, err := d.ca.Server(context.Background(), []string{"127.0.0.1"}, time.Hour)
	if err != nil {
		d.t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(d.serve), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	d.mu.Lock()
	d.server, d.listener = server, l
	d.mu.Unlock()
	go func() {
		_ = server.Serve(tls.NewListener(l, pki.ServerTLS(func() (*tls.Certificate, error) { return &cert, nil }, d.ca.Pool, clock.Clock{})))
	}()
}

// shut closes the listener too: a server that is closed before its goroutine
// serves leaves it open.
func (d *server) shut() {
	d.mu.Lock()
	server, listener := d.server, d.listener
	d.mu.Unlock()
	_ = listener.Close()
	_ = server.Close()
}

func (d *server) serve(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.URL.Path == protocol.PathEnrol {
		d.enrol(w, text)
		return
	}
	if len(r.TLS.VerifiedChains) == 0 {
		http.Error(w, "", http.StatusUnauthorized)
		return
	}
	name, err := pki.NameOf(r.TLS.VerifiedChains[0][0])
	if err != nil {
		http.Error(w, "", http.StatusForbidden)
		return
	}
	node, err := ids.Parse[ids.Node](name.ID)
	if err != nil {
		http.Error(w, "", http.StatusForbidden)
		return
	}
	switch r.URL.Path {
	case protocol.PathTrust:
		d.reply(w, d.trust())
	case fmt.Sprintf(protocol.PathRenew, node):
		d.mu.Lock()
		d.renewed[node]++
		d.mu.Unlock()
		var body protocol.RenewRequest
		_ = json.Unmarshal(text, &body)
		d.issue(w, node, body.CSR)
	case fmt.Sprintf(protocol.PathWait, node):
		d.wait(w, r, node)
	case fmt.Sprintf(protocol.PathReport, node):
		var body protocol.Report
		d.respond(w, protocol.Strict(bytesReader(text), &body), func() {
			d.reports[node] = body
			_ = json.NewEncoder(w).Encode(protocol.ReportReply{ReportEvery: d.every, Ack: d.ack(node, body.Nonce)})
		})
	default:
		if allocation, is := strings.CutPrefix(r.URL.Path, strings.TrimSuffix(fmt.Sprintf(protocol.PathMounts, node, ""), "/storage-key")); is && d.storageKey != nil {
			status, keys := d.storageKey(strings.TrimSuffix(allocation, "/storage-key"))
			w.WriteHeader(status)
			d.reply(w, keys)
			return
		}
		var body protocol.Result
		if err := protocol.Strict(bytesReader(text), &body); err != nil {
			w.WriteHeader(http.StatusNoContent) // progress
			return
		}
		d.respond(w, nil, func() {
			d.results[body.Task] = append(d.results[body.Task], body)
			d.mail[node] = slices.DeleteFunc(d.mail[node], func(s protocol.Signed) bool {
				e, err := protocol.Open(s, d.keys.Public())
				return err == nil && e.Task == body.Task
			})
		})
	}
}

func (d *server) ack(node ids.Node, nonce string) protocol.Signed {
	a := protocol.ReportAck{V: protocol.Version, Kid: d.statements.Active(), Node: node, Nonce: nonce, Accepted: true, Verified: true}
	body, err := a.Canonical()
	if err != nil {
		d.t.Error(err)
	}
	signature, err := d.statements.Sign(a.Kid, body)
	if err != nil {
		d.t.Error(err)
	}
	return protocol.Signed{Kid: a.Kid, Body: body, Signature: signature}
}

func (d *server) respond(w http.ResponseWriter, err error, note func()) {
	if err != nil {
		d.t.Errorf("agent sent: %v", err)
		http.Error(w, "", http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	note()
	close(d.news)
	d.news = make(chan struct{})
	d.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (d *server) enrol(w http.ResponseWriter, text []byte) {
	var body protocol.EnrolRequest
	_ = json.Unmarshal(text, &body)
	d.mu.Lock()
	node, ok := d.tokens[body.Token]
	delete(d.tokens, body.Token)
	d.enrolled[node]++
	d.mu.Unlock()
	if !ok {
		http.Error(w, "", http.StatusUnauthorized)
		return
	}
	d.issue(w, node, body.CSR)
}

func (d *server) issue(w http.ResponseWriter, node ids.Node, csr string) {
	d.mu.Lock()
	life := d.life
	d.mu.Unlock()
	made, err := d.ca.Issue(context.Background(), []byte(csr), pki.Name{Domain: domain, Kind: "node", ID: node.String()}.URI(), life)
	if err != nil {
		http.Error(w, "", http.StatusBadRequest)
		return
	}
	d.reply(w, protocol.EnrolReply{Node: node, Certificate: string(made.Chain), NotAfter: made.NotAfter, Trust: d.trust(), ReportEvery: cmp.Or(d.first, 2)})
}

func (d *server) trust() protocol.Trust {
	return protocol.Trust{CAs: string(d.ca.Bundle()), TaskKeys: d.keys.Public(), StatementKeys: d.statements.Public()}
}

func (d *server) reply(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		return
	}
}

func (d *server) wait(w http.ResponseWriter, r *http.Request, node ids.Node) {
	d.polls(node, 1)
	defer d.polls(node, -1)
	for {
		d.mu.Lock()
		mail, wake := d.mail[node], d.wake
		d.mu.Unlock()
		if len(mail) > 0 {
			d.reply(w, mail[0])
			return
		}
		select {
		case <-wake:
		case <-r.Context().Done():
			return
		}
	}
}

func (d *server) send(e protocol.Envelope) {
	d.t.Helper()
	e.Kid = d.keys.Active()
	body, err := e.Canonical()
	if err != nil {
		d.t.Fatal(err)
	}
	signature, err := d.keys.Sign(e.Kid, body)
	if err != nil {
		d.t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mail[e.Node] = append(d.mail[e.Node], protocol.Signed{Kid: e.Kid, Body: body, Signature: signature})
	close(d.wake)
	d.wake = make(chan struct{})
}

// until waits for a report that makes ok true.
func (d *server) until(what string, ok func() bool) {
	d.t.Helper()
	late := time.After(20 * time.Second)
	for {
		d.mu.Lock()
		done, news := ok(), d.news
		d.mu.Unlock()
		if done {
			return
		}
		select {
		case <-news:
		case <-late:
			d.t.Fatalf("not observed: %s", what)
		}
	}
}

// token returns an enrolment token of the node; it works once.
func (d *server) token(node ids.Node) func(context.Context) (string, error) {
	token := rand.Text()
	d.mu.Lock()
	d.tokens[token] = node
	d.mu.Unlock()
	return func(context.Context) (string, error) { return token, nil }
}

func (d *server) config(dir string, node ids.Node) agent.Config {
	return agent.Config{
		Server: "https://" + d.addr, StateDir: dir, Token: d.token(node), CA: d.ca.Bundle(),
		Driver: agent.DriverSim, Profile: "t4-4", Hostname: "gpu-01", Version: "test", Log: slog.New(slog.DiscardHandler),
	}
}

// run runs the agent until the returned function stops it.
func run(t testing.TB, c agent.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx, c) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func taskFor(t testing.TB, node ids.Node, a ids.Allocation, kind protocol.Type, fence int64, attempt int) protocol.Envelope {
	t.Helper()
	uuids, err := sim.UUIDs(node, "t4-4")
	if err != nil {
		t.Fatal(err)
	}
	gpus := uuids[:1]
	var params any = protocol.ProvisionUserParams{User: "t-1", UID: 200001, PublicKeys: []string{tenantKey}, GPUs: gpus}
	if kind == protocol.RevokeUser {
		params = protocol.RevokeUserParams{User: "t-1", UID: 200001, GPUs: gpus, Mode: "purge"}
	}
	if kind == protocol.Probe {
		params, gpus = protocol.ProbeParams{}, nil
	}
	if kind == protocol.GPUReset {
		params = protocol.GPUResetParams{GPU: gpus[0], ExpectIdle: true}
	}
	text, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Clock{}.Now()
	return protocol.Envelope{
		V: protocol.Version, Task: ids.New[ids.Task](), Node: node, Allocation: a, Slots: gpus, Generation: 1, Fence: fence, Attempt: attempt,
		Type: kind, Params: text, SpecHash: string(kind), NotBefore: now, ExpiresAt: now.Add(time.Hour), Nonce: rand.Text(),
	}
}

func (d *server) phase(node ids.Node, a ids.Allocation) protocol.Phase {
	for _, s := range d.reports[node].Allocations {
		if s.Allocation == a {
			return s.Phase
		}
	}
	return ""
}

func runFleet(t testing.TB, configs []agent.Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.RunFleet(ctx, configs) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func fingerprint(bundle []byte) string { return pki.BundleFingerprints(bundle)[0] }

func (d *server) nextNews() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.news
}

// polled returns when the node has a poll open, or has none.
func (d *server) polled(node ids.Node, want bool) {
	d.t.Helper()
	late := time.After(10 * time.Second)
	for {
		d.mu.Lock()
		n, changed := d.polling[node], d.changed
		d.mu.Unlock()
		if (n > 0) == want {
			return
		}
		select {
		case <-changed:
		case <-late:
			d.t.Fatalf("polls open: %v, want %v", n > 0, want)
		}
	}
}

func (d *server) polls(node ids.Node, by int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.polling[node] += by
	close(d.changed)
	d.changed = make(chan struct{})
}
