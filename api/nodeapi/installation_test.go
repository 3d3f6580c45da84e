package nodeapi_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/secrettest"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/protocol"
)

// installation is a node API on real services, a real database and real TLS.
type installation struct {
	*nodeapi.Intake

	t      *testing.T
	db     *pgxpool.Pool
	ca     *office
	local  *pki.Local
	keys   secret.LocalSigner
	trust  *secrettest.Trusted
	server *nodeapi.Server
	url    string
	clock  clock.Clock
	ahead  atomic.Int64 // by how much the clock of the installation is ahead
}

// office is the authority as a clerk sees it: it can be slow, away, and counted.
type office struct {
	secret.Authority

	issued  atomic.Int32
	revoked atomic.Int32
	before  func() error // called before each certificate
	after   func()       // called after each
}

func (o *office) Issue(ctx context.Context, csr []byte, uri *url.URL, ttl time.Duration) (pki.Certificate, error) {
	if o.before != nil {
		if err := o.before(); err != nil {
			return pki.Certificate{}, err
		}
	}
	made, err := o.Authority.Issue(ctx, csr, uri, ttl)
	if err == nil {
		o.issued.Add(1)
	}
	if o.after != nil {
		o.after()
	}
	return made, err
}

func (o *office) Revoke(context.Context, string) error {
	o.revoked.Add(1)
	return nil
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	h := &installation{t: t, db: pgtest.Clone(t)}
	h.clock = clock.At(func() time.Time { return clock.Clock{}.Now().Add(time.Duration(h.ahead.Load())) })
	dir, hints := t.TempDir(), &hint.Bus{}
	var err error
	if h.local, err = pki.Open(dir, h.clock); err != nil {
		t.Fatal(err)
	}
	if h.keys, err = secret.OpenSigner(dir); err != nil {
		t.Fatal(err)
	}
	if h.trust, err = secrettest.NewTrusted(h.keys, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	h.ca = &office{Authority: h.local}
	fleet := nodehealth.New(h.db, hints)
	h.Intake = &nodeapi.Intake{
		DB: h.db, Tasks: &nodetask.Store{DB: h.db, Signer: h.keys, Hints: hints, Clock: h.clock}, Observed: &observed.Store{DB: h.db},
		Inventory: fleet, Certificates: &secret.Certificates{DB: h.db, Barred: fleet.Retired}, Hints: hints, Clock: h.clock,
		StaleAfter: func(ids.Node) time.Duration { return time.Minute },
	}
	h.server = &nodeapi.Server{
		TrustDomain: domain, Hosts: []string{"127.0.0.1"}, CA: h.ca, Statements: h.trust.Statements, Trusted: h.trust, Nodes: h.Intake, Tasks: h.Intake, Reports: h.Intake,
		Hints: hints, Log: slog.New(slog.DiscardHandler), Clock: h.clock,
	}
	return h
}

// open serves the node API.
func (h *installation) open() *installation {
	h.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.url = "https://" + l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.server.Serve(ctx, l) }()
	h.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
	})
	return h
}

func (h *installation) do(do func(pgx.Tx) error) {
	h.t.Helper()
	if err := pgx.BeginFunc(h.t.Context(), h.db, do); err != nil {
		h.t.Fatal(err)
	}
}

func (h *installation) count(sql string, args ...any) (n int) {
	h.t.Helper()
	if err := h.db.QueryRow(h.t.Context(), sql, args...).Scan(&n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *installation) declare() ids.Node {
	h.t.Helper()
	node := ids.New[ids.Node]()
	h.do(func(tx pgx.Tx) error {
		return h.Inventory.Declare(h.t.Context(), tx, node, node.String(), []byte(`{"sku": "h100", "region": "eu1", "onboarding": "manual", "gpus": 1}`))
	})
	return node
}

func (h *installation) token(node ids.Node) (token string) {
	h.t.Helper()
	h.do(func(tx pgx.Tx) (err error) {
		token, _, err = h.Inventory.EnrolmentToken(h.t.Context(), tx, node)
		return err
	})
	return token
}

func (h *installation) peer(node ids.Node, cert tls.Certificate, cache tls.ClientSessionCache) *peer {
	h.t.Helper()
	config, err := pki.ClientTLS(h.local.Bundle(), func() (*tls.Certificate, error) { return &cert, nil }, h.clock)
	if err != nil {
		h.t.Fatal(err)
	}
	config.ClientSessionCache = cache
	transport := &http.Transport{TLSClientConfig: config}
	h.t.Cleanup(transport.CloseIdleConnections)
	return &peer{Client: &http.Client{Transport: transport}, t: h.t, url: h.url, node: node}
}

func (h *installation) stranger() *peer { return h.peer(ids.Node{}, tls.Certificate{}, nil) }

// join enrols a node over the node API.
func (h *installation) join(node ids.Node) *peer {
	h.t.Helper()
	key := newKey(h.t)
	var reply protocol.EnrolReply
	status, code := h.stranger().call("POST", protocol.PathEnrol, protocol.EnrolRequest{Token: h.token(node), CSR: csrFor(h.t, key), Capability: 2}, &reply)
	if status != http.StatusOK || reply.Node != node {
		h.t.Fatalf("enrolled as %v: %d %s", reply.Node, status, code)
	}
	p := h.peer(node, certificate(h.t, reply, key), tls.NewLRUClientSessionCache(4))
	p.key = key
	return p
}

// revoke revokes as the command of an operator does.
func (h *installation) revoke(node ids.Node) {
	h.t.Helper()
	h.do(func(tx pgx.Tx) error {
		if err := h.Inventory.RevokeTokens(h.t.Context(), tx, node); err != nil {
			return err
		}
		_, err := h.Certificates.Revoke(h.t.Context(), tx, node, "stolen")
		return err
	})
}
