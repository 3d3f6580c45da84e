package node

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/secrettest"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	trustDomain = "gpuaas.bench"
	frameSize   = 200
)

// The listeners at which a crowd can wait.
const (
	nodeAPI  = "node API"
	streamed = "node API for agents that open streams"
	longPoll = "net/http"
	bareTLS  = "tls.Conn"
)

// listenerVariable is the environment variable that passes the type of listener and the folder of
// its CA.
const listenerVariable = "GPUAAS_BENCH_LISTENER"

type listenerParameters struct{ Kind, Secrets string }

// listener is one implementation of waiting agents. All verify the same certificates.
type listener interface {
	serve(ctx context.Context, l net.Listener) error
	// answerAll answers all waiting agents.
	answerAll()
}

func ListenerProcess(ctx context.Context) error {
	var o listenerParameters
	if err := json.Unmarshal([]byte(os.Getenv(listenerVariable)), &o); err != nil {
		return fmt.Errorf("reading the parameters: %w", err)
	}
	ca, err := pki.Open(o.Secrets, clock.Clock{})
	if err != nil {
		return err
	}
	keys, err := secret.OpenSigner(filepath.Join(o.Secrets, "keys"))
	if err != nil {
		return err
	}
	cert, err := ca.Server(ctx, []string{"127.0.0.1"}, time.Hour)
	if err != nil {
		return err
	}
	config := pki.ServerTLS(func() (*tls.Certificate, error) { return &cert, nil }, ca.Pool, clock.Clock{})
	trusted, err := secrettest.NewTrusted(keys, filepath.Join(o.Secrets, "statement-keys"))
	if err != nil {
		return err
	}
	var s listener
	switch o.Kind {
	case nodeAPI:
		s = newOurs(ca, trusted)
	case streamed:
		api := newOurs(ca, trusted)
		api.Relays = &api.relays
		s = api
	case longPoll:
		s = &stdServer{config: config}
	case bareTLS:
		s = &bareServer{config: config}
	default:
		return fmt.Errorf("no listener is named %q", o.Kind)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, l) }()
	err = lab.Obey(ctx, func(_ context.Context, command string) lab.Outcome {
		switch command {
		case "address":
			return lab.Outcome{Text: l.Addr().String()}
		case "rss":
			return lab.OwnMemory()
		case "calls":
			api, ok := s.(*ours)
			if !ok {
				break
			}
			text, _ := json.Marshal(api.made()) // numbers
			return lab.Outcome{Text: string(text)}
		case "answer":
			at := clock.Clock{}.Now().UnixNano()
			s.answerAll()
			return lab.Outcome{At: at}
		}
		return lab.Outcome{Err: "no command is named " + command}
	})
	cancel()
	<-ended //nolint:errcheck // it was told to end
	return err
}

// ours is the node API with mailboxes in memory, so that only the cost of the node API is measured.
type ours struct {
	nodeapi.Server

	requests, reads atomic.Int64
	relays          noStreams

	mu    sync.Mutex
	mail  map[ids.Node]bool
	nodes map[ids.Node]struct{}
}

// calls counts the requests of agents, and the statements that a database would get for mailboxes and for streams.
type calls struct{ Requests, Mailboxes, Streams int64 }

func (o *ours) made() calls { return calls{o.requests.Load(), o.reads.Load(), o.relays.reads.Load()} }

// noStreams has no request for a stream.
type noStreams struct{ reads atomic.Int64 }

// Next returns nothing.
func (n *noStreams) Next(context.Context, ...ids.Node) (map[ids.Node][]protocol.Signed, error) {
	n.reads.Add(1)
	return map[ids.Node][]protocol.Signed{}, nil
}

func newOurs(ca *pki.Local, trusted *secrettest.Trusted) *ours {
	o := &ours{mail: map[ids.Node]bool{}, nodes: map[ids.Node]struct{}{}}
	o.Server = nodeapi.Server{
		TrustDomain: trustDomain, Hosts: []string{"127.0.0.1"}, CA: ca, Statements: trusted.Statements, Trusted: trusted, Nodes: o, Tasks: o, Reports: o, Hints: &hint.Bus{}, Log: lab.Quiet(os.Stderr),
	}
	return o
}

func (o *ours) serve(ctx context.Context, l net.Listener) error { return o.Serve(ctx, l) }

func (o *ours) answerAll() {
	o.mu.Lock()
	nodes := slices.Collect(maps.Keys(o.nodes)) // polls that return change the map
	for _, node := range nodes {
		o.mail[node] = true
	}
	o.mu.Unlock()
	for _, node := range nodes {
		o.Hints.Send(nodeapi.Topic(node))
	}
}

var errNotHere = errors.New("not part of this measurement")

func (*ours) Enrol(context.Context, nodeapi.Enrolment, nodeapi.Issue) (nodeapi.Admitted, error) {
	return nodeapi.Admitted{}, errNotHere
}

func (*ours) Renew(context.Context, ids.Node, string, nodeapi.Issue) (nodeapi.Grant, error) {
	return nodeapi.Grant{}, errNotHere
}

// Check accepts every certificate. Each request calls it once.
func (o *ours) Check(context.Context, ids.Node, string) error {
	o.requests.Add(1)
	return nil
}

// Find returns a certificate of the present trust state: no agent has a reason to renew.
func (o *ours) Find(context.Context, ids.Node, string) (secret.InForce, error) {
	set, _ := o.Trusted.Control()
	return secret.InForce{Trust: secret.Stamp(o.CA.Bundle(), set.TaskKeys, set.StatementKeys, set.RelayKeys), Issuer: o.CA.Issuer(), Enrolment: 1}, nil
}
func (*ours) Fallen(context.Context, []string) ([]string, error)                { return nil, nil }
func (*ours) Finish(context.Context, ids.Node, protocol.Result) error           { return nil }
func (*ours) Step(context.Context, ids.Node, ids.Task, protocol.Progress) error { return nil }
func (*ours) Report(context.Context, ids.Node, protocol.Report) error           { return nil }

func (o *ours) Next(_ context.Context, nodes ...ids.Node) (map[ids.Node]protocol.Signed, error) {
	o.reads.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	found := map[ids.Node]protocol.Signed{}
	for _, n := range nodes {
		o.nodes[n] = struct{}{}
		if o.mail[n] {
			delete(o.mail, n)
			found[n] = protocol.Signed{Body: make([]byte, 100)} // with its names and base64 about a frame
		}
	}
	return found, nil
}

// stdServer is a long poll with net/http.
type stdServer struct {
	config *tls.Config
	all    waitingPolls
}

func (s *stdServer) answerAll() { s.all.answerAll() }

func (s *stdServer) serve(ctx context.Context, l net.Listener) error {
	frame := make([]byte, frameSize)
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 3 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: nil,
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hinted, leave := s.all.enter()
			defer leave()
			end := time.NewTimer(protocol.WaitFor)
			defer end.Stop()
			select {
			case <-hinted:
				_, _ = w.Write(frame)
			case <-end.C:
				w.WriteHeader(http.StatusNoContent)
			case <-r.Context().Done():
			}
		}),
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return server.Serve(tls.NewListener(l, s.config))
}

// waitingPolls has one channel for each waiting request.
type waitingPolls struct {
	mu  sync.Mutex
	all map[chan struct{}]struct{}
}

func (w *waitingPolls) enter() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[chan struct{}]struct{}{}
	}
	w.all[c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, c)
	}
}

func (w *waitingPolls) answerAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.all {
		c <- struct{}{}
	}
}

// bareServer completes handshakes, reads requests and writes frames. Less work is not possible for a
// listener that authenticates its callers.
type bareServer struct {
	config *tls.Config
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
}

func (b *bareServer) serve(ctx context.Context, l net.Listener) error {
	b.conns = map[net.Conn]struct{}{}
	secure := tls.NewListener(l, b.config)
	context.AfterFunc(ctx, func() { _ = secure.Close() })
	for {
		c, err := secure.Accept()
		if err != nil {
			return err
		}
		go b.hold(c)
	}
}

func (b *bareServer) hold(c net.Conn) {
	defer func() { _ = c.Close() }()
	said := make([]byte, 100)
	n, err := c.Read(said)
	if err != nil {
		return
	}
	if string(said[:min(n, 6)]) == "GET / " { // a knock
		_, _ = c.Write(make([]byte, frameSize))
		_, _ = c.Read(said)
		return
	}
	b.mu.Lock()
	b.conns[c] = struct{}{}
	b.mu.Unlock()
	for err == nil {
		_, err = io.Copy(io.Discard, c)
		if err == nil {
			return
		}
	}
}

func (b *bareServer) answerAll() {
	frame := make([]byte, frameSize)
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		_, _ = c.Write(frame)
	}
}
