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
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/agent/wire"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/platform/secret"
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
	// Next hands out the next task of the node and notes that it was delivered.
	Next(ctx context.Context, node ids.Node) (wire.Signed, bool, error)
	// Finish takes a result: task_superseded when a newer task overtook it.
	Finish(ctx context.Context, node ids.Node, r wire.Result) error
	Step(ctx context.Context, node ids.Node, task ids.Task, p wire.Progress) error
}

// Reports takes what nodes see: stale_report for one that is not the newest.
type Reports interface {
	Report(ctx context.Context, node ids.Node, r wire.Report) error
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
	// ReportEvery is how often a node should report; nil leaves it to the node.
	ReportEvery func(ids.Node) time.Duration
	// Relook is how often a poll looks without a hint; 5 s when zero.
	Relook time.Duration

	ending <-chan struct{} // closed when Serve's context ends
	cert   serverCert
	polls  polls
	recall recall
}

// Topic is what to hint at when a node's mailbox has something new.
func Topic(node ids.Node) string { return "node:" + node.String() }

const (
	headerWithin = 10 * time.Second
	bodyWithin   = 15 * time.Second
	writeWithin  = 15 * time.Second
	// idleFor is longer than a node is silent between two reports.
	idleFor    = 3 * time.Minute
	maxHeaders = 16 << 10
	drainFor   = 5 * time.Second
)

// Serve answers nodes on l until ctx ends, then lets what is being answered end.
// Open polls are told that there is nothing.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.ending = ctx.Done()
	if _, err := s.cert.get(ctx, s); err != nil {
		return fmt.Errorf("certifying the node door: %w", err)
	}
	var watch sync.WaitGroup
	watch.Go(func() { s.watch(ctx) })
	defer watch.Wait()

	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headerWithin,
		IdleTimeout:       idleFor,
		MaxHeaderBytes:    maxHeaders,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), // failed handshakes of strangers
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		// HTTP/2 keeps more memory per idle connection and lets one peer open many
		// streams.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	secure := tls.NewListener(l, pki.ServerTLS(func() (*tls.Certificate, error) { return s.cert.get(ctx, s) }, s.CA.Pool, s.Clock))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(secure) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving nodes: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainFor)
	defer cancel()
	err := server.Shutdown(drain)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	<-ended //nolint:errcheck // http.ErrServerClosed by now
	return err
}

// Handler answers requests whose TLS is as Serve sets it up.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range s.routes() {
		mux.Handle(pattern, handler)
	}
	mux.Handle("/", s.known(notFound)) // strangers do not learn which paths exist
	return telemetry.Door("gpuaas/node", mux)
}

func (s *Server) routes() map[string]http.Handler {
	const nodePath = "/internal/v1/nodes/{node}/"
	return map[string]http.Handler{
		"POST " + wire.PathEnrol:                     s.open(s.enrol),
		"GET /agent/{platform}":                      s.open(s.binary),
		"GET " + wire.PathTrust:                      s.known(s.trust),
		"POST " + nodePath + "certificate":           s.known(s.renew),
		"GET " + nodePath + "tasks/wait":             s.known(s.wait),
		"POST " + nodePath + "tasks/{task}/result":   s.known(s.result),
		"POST " + nodePath + "tasks/{task}/progress": s.known(s.progress),
		"PUT " + nodePath + "report":                 s.known(s.report),
	}
}
