package agent

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/agent/client"
	"github.com/gpuaas/gpuaas/agent/enrol"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/agent/relay"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/protocol"
)

// node is one agent at work.
type node struct {
	Config

	log    *slog.Logger
	worker Worker
	local  *helper.Local // the worker, where it is in this process
	record *statusRecord // nil without a status socket
	// proofKey is the public part of the key that the worker proves by.
	proofKey func() (ed25519.PublicKey, error)

	identity atomic.Pointer[enrol.Identity]
	client   atomic.Pointer[client.Client]
	period   atomic.Int64 // seconds between reports, from the last reply; 0 before the first
	share    float64      // of the renewal's jitter, drawn once

	// changing serialises replacements of the identity. Without it a renewal and a new trust state
	// at the same time could overwrite each other.
	changing sync.Mutex

	mu       sync.Mutex
	outbox   outbox
	renewTry time.Time
	polledAt time.Time     // when a poll last began or ended
	free     chan struct{} // closed while the node is not partitioned
	cut      bool

	staging staging
	relay   *relay.Relay
	streams sync.WaitGroup
}

func newNode(c Config) *node {
	n := &node{Config: c, log: c.Log, share: rand.Float64(), free: make(chan struct{})} //nolint:gosec // spreads load
	close(n.free)
	n.relay = &relay.Relay{
		Stream: func(ctx context.Context, s protocol.Signed) (helper.Stream, error) { return n.worker.Stream(ctx, s) },
		ReadLog: func(ctx context.Context, stream ids.Task, end bool) (helper.LogBatch, error) {
			return n.worker.ReadLog(ctx, stream, end)
		},
		Identity: n.identity.Load, Clock: c.Clock, Log: c.Log,
	}
	return n
}

// prepare enrols if need be and opens all that the identity names.
func prepare(ctx context.Context, c Config) (*node, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	n := newNode(c)
	n.proofKey = func() (ed25519.PublicKey, error) { return helper.PublicKey(c.journalDir()) }
	identity, fresh, err := n.identify(ctx)
	if err != nil {
		return nil, err
	}
	n.log = c.Log.With("node", identity.Node)

	return n, n.openLocal(ctx, fresh)
}

// identify returns the identity of the node. It retries until it has one or ctx ends. fresh means
// that the node has just enrolled, or that it crashed before its first journal was created.
func (n *node) identify(ctx context.Context) (identity *enrol.Identity, fresh bool, err error) {
	known, found, err := n.load()
	if err != nil {
		return nil, false, err
	}
	if found && n.Clock.Now().Before(known.NotAfter()) {
		return &known, known.Journal == uuid.Nil, n.become(&known)
	}
	// An expired certificate is not renewed silently: only a token, which an
	// operator or the profile hands out, brings the node back.
	var wait backoff
	for {
		err := n.enrol(ctx)
		if err == nil {
			return n.identity.Load(), !found || known.Journal == uuid.Nil, nil
		}
		n.log.WarnContext(ctx, "not enrolled", "err", err, "expired", found)
		if !pause(ctx, wait.next()) {
			return nil, false, ctx.Err()
		}
	}
}

// load reads the identity. The node must stay the same, also when it has expired.
func (n *node) load() (known enrol.Identity, found bool, err error) {
	known, found, err = enrol.Load(n.identityDir())
	if err == nil && found {
		n.identity.Store(&known)
	}
	return known, found, err
}

// enrol trades a token for an identity.
func (n *node) enrol(ctx context.Context) error {
	if n.Token == nil {
		return errors.New("no enrolment token is configured")
	}
	token, err := n.Token(ctx)
	if err != nil {
		return fmt.Errorf("reading enrolment token: %w", err)
	}
	key, csr, err := enrol.NewKey()
	if err != nil {
		return err
	}
	config, err := n.firstContact()
	if err != nil {
		return err
	}
	c, err := client.New(n.Server, config)
	if err != nil {
		return err
	}
	defer c.Release()
	public, err := n.proofKey()
	if err != nil {
		return fmt.Errorf("reading proof key: %w", err)
	}
	reply, err := c.Enrol(ctx, protocol.EnrolRequest{
		Token: token, CSR: csr, Hostname: n.Hostname, Capability: protocol.Capability, ProofKey: public,
	})
	if err != nil {
		return fmt.Errorf("enrolling: %w", err)
	}
	return n.adopt(reply, key)
}

// renew gets the next certificate, for a new key.
func (n *node) renew(ctx context.Context) error {
	before := *n.identity.Load()
	if !n.Clock.Now().Before(before.NotAfter()) {
		return n.enrol(ctx)
	}
	key, csr, err := enrol.NewKey()
	if err != nil {
		return err
	}
	reply, err := n.client.Load().Renew(ctx, before.Node, csr)
	if err != nil {
		return fmt.Errorf("renewing certificate: %w", err)
	}
	return n.adopt(reply, key)
}

func (n *node) adopt(reply protocol.EnrolReply, key string) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	var before enrol.Identity
	if known := n.identity.Load(); known != nil {
		before = *known
	}
	identity, err := enrol.From(reply, key, before)
	if err != nil {
		return err
	}
	// The disk is written before memory: after a crash the control plane accepts only the new identity.
	if err := identity.Save(n.identityDir()); err != nil {
		return err
	}
	return n.become(&identity)
}

// become makes all later calls use identity. An open poll ends on the old connection.
func (n *node) become(identity *enrol.Identity) error {
	config, err := pki.ClientTLS([]byte(identity.Trust.CAs), func() (*tls.Certificate, error) { return identity.Pair(), nil }, n.Clock)
	if err != nil {
		return err
	}
	c, err := client.New(n.Server, config)
	if err != nil {
		return err
	}
	n.identity.Store(identity)
	n.mu.Lock()
	old, cut := n.client.Swap(c), n.cut
	n.mu.Unlock()
	c.Cut(cut)
	if old != nil {
		old.Release()
	}
	return nil
}

func (n *node) id() ids.Node { return n.identity.Load().Node }

// reportEvery returns the interval of reports without changes.
func (n *node) reportEvery() time.Duration {
	const usual = 10 * time.Second // the policy's default
	if s := n.period.Load(); s > 0 {
		return time.Duration(s) * time.Second
	}
	if s := n.identity.Load().ReportEvery; s > 0 {
		return time.Duration(s) * time.Second
	}
	return usual
}
