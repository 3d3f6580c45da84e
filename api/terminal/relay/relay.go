// Package relay connects terminal servers with the logins of allocations. A node is never dialled: Dial signs a request,
// the poll of the node receives it, and the agent opens one TLS connection to the listener of this process for the stream.
package relay

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/terminal/relayrequest"
	"github.com/gpuaas/gpuaas/protocol"
)

// Target is the destination of a stream.
type Target struct {
	Node       ids.Node
	Allocation ids.Allocation
	Fence      int64
	Kind       protocol.StreamKind
	Log        *protocol.LogQuery // of kind logs
	Trace      string             // W3C traceparent of the request that opens the stream, or empty
}

// Signer signs requests for streams.
type Signer interface {
	Active() (kid string)
	Sign(ctx context.Context, kid string, body []byte) (signature []byte, err error)
}

// Certificates checks the certificates of nodes.
type Certificates interface {
	// FallenOf returns those of the serials that are not in force.
	FallenOf(ctx context.Context, serials []string) ([]string, error)
	// RevokedOf returns those of the serials that were revoked. One call a second checks all open streams, which outlive
	// the renewals of their certificates.
	RevokedOf(ctx context.Context, serials []string) ([]string, error)
}

// Server requests streams and accepts the connections of agents. Its fields are set before Serve.
type Server struct {
	// Address is the address and port at which agents reach the listener of this process.
	Address      string
	TrustDomain  string
	Roots        secret.Roots // of the certificates of nodes
	Certificates Certificates
	Requests     relayrequest.Store
	Signer       Signer
	Hints        *hint.Bus // a hint to the poll of the node
	// Internal serves the role api of other processes, which trusts this process by its key. It may be nil.
	Internal http.Handler
	// HasKey reports whether a running terminal server has the key with a fingerprint. Terminals serves the websockets that such
	// a server passes on.
	HasKey    func(ctx context.Context, key string) (bool, error)
	Terminals http.Handler
	Log       *slog.Logger
	Clock     clock.Clock

	prepared sync.Once
	key      serverKey
	failure  error

	mu      sync.Mutex
	waiting map[ids.Task]*pending
	open    map[*Conn]struct{}
	over    bool
}

// pending is a stream that no agent has opened.
type pending struct {
	node   ids.Node
	kind   protocol.StreamKind
	result chan result // buffered: one value
}

type result struct {
	conn *Conn
	err  error
}

const (
	// hintAgain is the time after which a hint or a response counts as lost. The node API sends the request again.
	hintAgain = 3 * time.Second
	// headerWithin limits the handshake and the header of an agent.
	headerWithin = 10 * time.Second
	maxHeader    = 16 << 10
	// maxWaiting limits the streams that are opened at the same time.
	maxWaiting = 4096
	// deleteWithin limits the deletion of a request. A request that stays expires.
	deleteWithin = 5 * time.Second
)

// Serve accepts the connections of agents on l until ctx ends, and then closes all streams.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if err := s.prepare(); err != nil {
		return errors.Join(err, l.Close())
	}
	//nolint:contextcheck // a handshake has a context of its own
	config := s.withPeers(pki.ServerTLS(func() (*tls.Certificate, error) { return &s.key.certificate, nil }, s.Roots.Pool, s.Clock))
	server := &http.Server{
		Handler: s.handler(), ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headerWithin,
		WriteTimeout: headerWithin, IdleTimeout: headerWithin, DisableGeneralOptionsHandler: true,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { s.watch(ctx) })
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(tls.NewListener(sockets{l}, config)) }()
	var err error
	select {
	case err = <-ended:
		err = fmt.Errorf("serving agents on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	cancel()
	s.end()
	return errors.Join(err, server.Close()) // handlers are short, and Close does not know the streams
}

// prepare makes the key of this process.
func (s *Server) prepare() error {
	s.prepared.Do(func() {
		s.key, s.failure = newServerKey(s.Clock.Now())
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting, s.open = map[ids.Task]*pending{}, map[*Conn]struct{}{}
	})
	return s.failure
}

// Dial requests a connection to the login of an allocation, and returns it when the agent has opened it. The error is
// unavailable if the agent does not open it in time, or with the reason of the agent if the agent rejects it.
func (s *Server) Dial(ctx context.Context, to Target) (net.Conn, error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, protocol.RelayWithin)
	defer cancel()
	stream := ids.New[ids.Task]()
	request, err := s.sign(ctx, stream, to)
	if err != nil {
		return nil, err
	}
	p := &pending{node: to.Node, kind: to.Kind, result: make(chan result, 1)}
	if err := s.expect(stream, p); err != nil {
		return nil, err
	}
	if err := s.Requests.Insert(ctx, request); err != nil {
		s.withdraw(stream)
		return nil, errs.New(errs.Unavailable, "the connection to the node could not be requested").Because(err)
	}
	failpoint.Hit("terminal.relay.after_request")
	conn, err := s.await(ctx, stream, to.Node, p)
	go s.delete(context.WithoutCancel(ctx), stream)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// sign makes the request for a stream.
func (s *Server) sign(ctx context.Context, stream ids.Task, to Target) (r relayrequest.Request, err error) {
	nonce := make([]byte, 16)
	if _, err := rand.Read(nonce); err != nil {
		return r, fmt.Errorf("drawing a nonce: %w", err)
	}
	params := protocol.RelayOpenParams{Kind: to.Kind, Address: s.Address, ServerKey: s.key.fingerprint, Log: to.Log}
	e, err := protocol.NewRelayOpen(s.Signer.Active(), stream, to.Node, to.Allocation, to.Fence, params, hex.EncodeToString(nonce), to.Trace, s.Clock.Now())
	if err != nil {
		return r, errs.New(errs.Internal, "the request for a stream is not valid").Because(err)
	}
	r = relayrequest.Request{Stream: stream, Node: to.Node, Expires: e.ExpiresAt, Signed: protocol.Signed{Kid: e.Kid}}
	if r.Signed.Body, err = e.Canonical(); err != nil {
		return r, err
	}
	if r.Signed.Signature, err = s.Signer.Sign(ctx, e.Kid, r.Signed.Body); err != nil {
		return r, fmt.Errorf("signing a request for a stream: %w", err)
	}
	return r, nil
}

// await waits for the agent. It repeats the hint, because a hint may be lost.
func (s *Server) await(ctx context.Context, stream ids.Task, node ids.Node, p *pending) (*Conn, error) {
	again := time.NewTicker(hintAgain)
	defer again.Stop()
	for {
		s.Hints.Send(nodetask.Topic(node))
		select {
		case r := <-p.result:
			return r.conn, r.err
		case <-again.C:
			continue
		case <-ctx.Done():
		}
		switch expected := s.withdraw(stream); {
		case expected && errors.Is(ctx.Err(), context.Canceled):
			return nil, fmt.Errorf("waiting for the agent of node %s: %w", node, ctx.Err())
		case expected:
			return nil, errs.New(errs.Unavailable, "the agent of the node did not open the connection within %s", protocol.RelayWithin).
				Try("check that the node is online and that its agent reaches %s", s.Address).Because(ctx.Err())
		}
		r := <-p.result // the agent was faster
		return r.conn, r.err
	}
}

func (s *Server) delete(ctx context.Context, stream ids.Task) {
	ctx, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	if err := s.Requests.Delete(ctx, stream); err != nil {
		s.Log.DebugContext(ctx, "request for a stream not deleted; it expires", "stream", stream, "err", err)
	}
}

func (s *Server) expect(stream ids.Task, p *pending) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return errs.New(errs.Unavailable, "this server is shutting down").Try("try again")
	case len(s.waiting) >= maxWaiting:
		return errs.New(errs.Unavailable, "too many connections are being opened").Try("try again in a few seconds")
	}
	s.waiting[stream] = p
	return nil
}

// withdraw reports whether the stream was still expected.
func (s *Server) withdraw(stream ids.Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, expected := s.waiting[stream]
	delete(s.waiting, stream)
	return expected
}

// remove returns the stream that a node opens, which is expected no longer.
func (s *Server) remove(stream ids.Task, node ids.Node) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.waiting[stream]
	if p == nil || p.node != node {
		return nil
	}
	delete(s.waiting, stream)
	return p
}

// end rejects the expected streams and closes the open ones.
func (s *Server) end() {
	s.mu.Lock()
	s.over = true
	waiting, open := s.waiting, s.open
	s.waiting, s.open = map[ids.Task]*pending{}, map[*Conn]struct{}{}
	s.mu.Unlock()
	for _, p := range waiting {
		p.result <- result{err: errs.New(errs.Unavailable, "this server is shutting down").Try("try again")}
	}
	for c := range open {
		c.abort()
	}
}
