// Package nodeapi is the node door: the one listener that nodes speak to, mutual
// TLS 1.3 that ends in this process. It owns who is speaking: a node's id is read
// from the verified certificate, and from nowhere else.
//
// It refuses every call but the first enrolment without a certificate, every path
// that names another node, and every certificate that no longer stands, also in
// the middle of a poll. It holds no state but open polls.
package nodeapi

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/protocol"
)

// TaskKeys are those that nodes should believe tasks by.
type TaskKeys interface {
	Active() (kid string)
	Sign(ctx context.Context, kid string, body []byte) (signature []byte, err error)
	Public() map[string][]byte
}

// Nodes knows which node may speak.
type Nodes interface {
	// Enrol consumes the token and records the certificate that issue makes:
	// enrolment_token_invalid for a token that is unknown, used or late.
	Enrol(ctx context.Context, e Enrolment, issue Issue) (Admitted, error)
	// Renew records the certificate that issue makes, for a node that holds serial.
	Renew(ctx context.Context, node ids.Node, serial string, issue Issue) (Grant, error)
	// Check refuses a certificate that does not stand: certificate_revoked,
	// node_identity_mismatch.
	Check(ctx context.Context, node ids.Node, serial string) error
	// Believes is the stamp of what the holder of serial was told to believe.
	Believes(ctx context.Context, node ids.Node, serial string) (stamp string, err error)
	// Fallen returns those of the serials that do not stand any more. It is asked
	// once a second about all open polls together.
	Fallen(ctx context.Context, serials []string) ([]string, error)
}

// Tasks are the nodes' mailboxes.
type Tasks interface {
	// Next hands out the next task of each of the nodes that has one, and notes that
	// it was delivered.
	Next(ctx context.Context, nodes ...ids.Node) (map[ids.Node]protocol.Signed, error)
	// Finish takes a result: task_superseded when a newer task overtook it.
	Finish(ctx context.Context, node ids.Node, r protocol.Result) error
	Step(ctx context.Context, node ids.Node, task ids.Task, p protocol.Progress) error
}

// Reports takes what nodes see: stale_report for one that is not the newest.
type Reports interface {
	Report(ctx context.Context, node ids.Node, r protocol.Report) error
}

// Server is the door. Its fields are set before Serve.
type Server struct {
	TrustDomain string
	Hosts       []string // names and addresses that nodes dial
	CA          secret.Authority
	Keys        TaskKeys
	Nodes       Nodes
	Tasks       Tasks
	Reports     Reports
	Hints       *hint.Bus // topic Topic(node) wakes its poll
	Log         *slog.Logger
	Clock       clock.Clock

	// CertificateFor is the life of a node's certificate; 24 h when nil.
	CertificateFor func() time.Duration
	// ReleaseKeys are those that nodes should believe builds of the agent by.
	ReleaseKeys func() map[string][]byte
	// Binaries are the builds of the agent that a host may fetch.
	Binaries *Binaries
	// Builds are those that nodes are asked to become; nil: none.
	Builds Builds
	// ReportEvery is how often a node should report; nil leaves it to the node.
	ReportEvery func(ids.Node) time.Duration
	// Relook is how often a poll looks without a hint; 5 s when zero.
	Relook time.Duration

	life   context.Context //nolint:containedctx // what answers to polls are logged under
	cert   serverCert
	hall   hall
	recall recall
}

const topicPrefix = "node:"

// Topic is what to hint at when a node's mailbox has something new.
func Topic(node ids.Node) string { return topicPrefix + node.String() }

const (
	// handshakeWithin is twice as long as an agent waits for one, and dials again:
	// of those who queue longer than that in a storm, nobody is left.
	handshakeWithin = 30 * time.Second
	headerWithin    = 10 * time.Second
	bodyWithin      = 15 * time.Second
	writeWithin     = 15 * time.Second
	// idleFor is longer than a node is silent between two reports.
	idleFor  = 3 * time.Minute
	drainFor = 5 * time.Second
)

// Serve answers nodes on l until ctx ends, then lets what is being answered end.
// Open polls are told that there is nothing.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.life = context.WithoutCancel(ctx)
	s.hall.init()
	if _, err := s.cert.get(ctx, s); err != nil {
		return fmt.Errorf("certifying the node door: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	defer s.Hints.Tap(s.heard)()
	beside.Go(func() { s.watch(ctx) })
	for range lookers {
		beside.Go(func() { s.attend(ctx) })
	}
	server := &transport{
		handler: s.Handler(), tls: pki.ServerTLS(func() (*tls.Certificate, error) { return s.cert.get(ctx, s) }, s.CA.Pool, s.Clock), log: s.Log,
		handshakeWithin: handshakeWithin, headerWithin: headerWithin, bodyWithin: bodyWithin, writeWithin: writeWithin, idleFor: idleFor, drainFor: drainFor,
	}
	if err := server.serve(ctx, l); err != nil {
		return fmt.Errorf("serving nodes: %w", err)
	}
	return nil
}

// Handler answers requests whose TLS is as Serve sets it up.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range s.routes() {
		mux.Handle(pattern, handler)
	}
	mux.Handle("/", s.known(notFound)) // strangers do not learn which paths exist
	return telemetry.Traced("gpuaas/node", mux)
}

func (s *Server) routes() map[string]http.Handler {
	const nodePath = "/internal/v1/nodes/{node}/"
	return map[string]http.Handler{
		"POST " + protocol.PathEnrol:                 s.open(s.enrol),
		"GET /agent/{platform}":                      s.open(s.binary),
		"GET " + protocol.PathTrust:                  s.known(s.trust),
		"GET /internal/v1/agent/{digest}":            s.known(s.build),
		"POST " + nodePath + "certificate":           s.known(s.renew),
		"GET " + nodePath + "tasks/wait":             s.known(s.wait),
		"POST " + nodePath + "tasks/{task}/result":   s.known(s.result),
		"POST " + nodePath + "tasks/{task}/progress": s.known(s.progress),
		"PUT " + nodePath + "report":                 s.known(s.report),
	}
}
