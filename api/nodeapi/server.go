// Package nodeapi is the server endpoint for nodes: one listener with mutual TLS 1.3 that ends in
// this process. The ID of a node is read only from its verified certificate.
//
// Without a certificate, a client can only enrol and download the agent. The node API rejects paths
// that name another node, and certificates that are not in force, also during a poll. Open polls
// are its only state.
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

// Statements sign responses to reports. Their keys sign no tasks.
type Statements interface {
	Active() (kid string)
	Sign(ctx context.Context, kid string, body []byte) (signature []byte, err error)
}

// Trusted contains the signed sets of keys that nodes trust. The node API publishes them and cannot make one.
type Trusted interface {
	// Control returns the keys of the control plane, and the last sets, oldest first.
	Control() (protocol.KeySet, []protocol.Signed)
	// Releases returns the keys of agent releases, and the last sets, oldest first.
	Releases() (protocol.ReleaseKeySet, []protocol.Signed)
}

// Nodes enrols nodes and checks their certificates.
type Nodes interface {
	// Enrol uses up the token and records the certificate that issue creates. It returns
	// enrolment_token_invalid for a token that is unknown, used or expired.
	Enrol(ctx context.Context, e Enrolment, issue Issue) (Admitted, error)
	// Renew records the certificate that issue creates, for a node whose current certificate is
	// serial.
	Renew(ctx context.Context, node ids.Node, serial string, issue Issue) (Grant, error)
	// Check rejects a certificate that is not in force, with certificate_revoked or
	// node_identity_mismatch.
	Check(ctx context.Context, node ids.Node, serial string) error
	// Find is Check with the description of the certificate.
	Find(ctx context.Context, node ids.Node, serial string) (secret.InForce, error)
	// Fallen returns the serials that are no longer in force. One call a second checks all open
	// polls.
	Fallen(ctx context.Context, serials []string) ([]string, error)
}

// Tasks are the nodes' mailboxes.
type Tasks interface {
	// Next returns the next task of each node that has one, and records the delivery.
	Next(ctx context.Context, nodes ...ids.Node) (map[ids.Node]protocol.Signed, error)
	// Finish records a result. It returns task_superseded if the control plane has issued a newer
	// task.
	Finish(ctx context.Context, node ids.Node, r protocol.Result) error
	Step(ctx context.Context, node ids.Node, task ids.Task, p protocol.Progress) error
}

// Relays are the requests for streams of terminal servers.
type Relays interface {
	// Next returns the requests of each node that has some, and records that they were sent.
	Next(ctx context.Context, nodes ...ids.Node) (map[ids.Node][]protocol.Signed, error)
}

// MountKeys are the access keys of the mounts of allocations.
type MountKeys interface {
	// ExtendMounts returns the keys of an allocation to its node, and extends them. It returns not_found unless the
	// allocation is on the node and has mounts.
	ExtendMounts(ctx context.Context, node ids.Node, allocation ids.Allocation) (protocol.MountKeys, error)
}

// Reports stores the reports of nodes. It returns stale_report for a report that is older than the
// stored one.
type Reports interface {
	Report(ctx context.Context, node ids.Node, r protocol.Report) error
}

// Server serves the node API. Its fields are set before Serve.
type Server struct {
	TrustDomain string
	Hosts       []string // names and addresses that nodes connect to
	CA          secret.Authority
	Statements  Statements
	Trusted     Trusted
	Nodes       Nodes
	Tasks       Tasks
	Reports     Reports
	Relays      Relays // nil: none
	MountKeys   MountKeys
	Hints       *hint.Bus // a hint to Topic(node) makes its poll read the mailbox
	Log         *slog.Logger
	Clock       clock.Clock

	// CertificateFor returns the lifetime of a node's certificate. The default is 24 hours.
	CertificateFor func() time.Duration
	// Binaries are the builds of the agent for computers that are not enrolled.
	Binaries *Binaries
	// Builds are the builds of the agent that rollouts install on nodes. It may be nil.
	Builds Builds
	// ReportEvery returns the report interval of a node. If it is nil, the node chooses.
	ReportEvery func(ids.Node) time.Duration
	// Relook is the interval after which a mailbox is read without a hint. The default is 5
	// seconds.
	Relook time.Duration

	life    context.Context //nolint:containedctx // what answers to polls are logged under
	cert    serverCert
	waiters waiters
	recall  recall
}

const topicPrefix = "node:"

// Topic returns the hint topic of a node. A hint to it announces a new task in the node's mailbox.
func Topic(node ids.Node) string { return topicPrefix + node.String() }

const (
	// handshakeWithin is twice the handshake timeout of an agent. When many nodes connect at once,
	// an agent whose handshake waits longer has already disconnected and connects again.
	handshakeWithin = 30 * time.Second
	headerWithin    = 10 * time.Second
	bodyWithin      = 15 * time.Second
	writeWithin     = 15 * time.Second
	// idleFor is longer than the interval between two reports of a node, so that the connection
	// stays open.
	idleFor  = 3 * time.Minute
	drainFor = 5 * time.Second
)

// Serve serves nodes on l until ctx ends, and then lets open requests finish. Open polls end
// without a task.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.life = context.WithoutCancel(ctx)
	s.waiters.init()
	if _, err := s.cert.get(ctx, s); err != nil {
		return fmt.Errorf("certifying the node API: %w", err)
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

// Handler returns the handler of the node API. It expects the TLS configuration that Serve uses.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range s.routes() {
		mux.Handle(pattern, handler)
	}
	mux.Handle("/", s.identified(notFound)) // without a certificate, a client cannot find out which paths exist
	return telemetry.Traced("gpuaas/node", mux)
}

func (s *Server) routes() map[string]http.Handler {
	const nodePath = "/internal/v1/nodes/{node}/"
	return map[string]http.Handler{
		"POST " + protocol.PathEnrol:                 s.open(s.enrol),
		"GET /agent/{platform}":                      s.open(s.binary),
		"GET " + protocol.PathTrust:                  s.identified(s.trust),
		"GET /internal/v1/agent/{digest}":            s.identified(s.build),
		"POST " + nodePath + "certificate":           s.identified(s.renew),
		"GET " + nodePath + "tasks/wait":             s.identified(s.wait),
		"POST " + nodePath + "tasks/{task}/result":   s.identified(s.result),
		"POST " + nodePath + "tasks/{task}/progress": s.identified(s.progress),
		"PUT " + nodePath + "report":                 s.identified(s.report),

		"POST " + nodePath + "allocations/{allocation}/storage-key": s.identified(s.storageKey),
	}
}
