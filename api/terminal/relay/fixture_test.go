package relay_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	xssh "golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent"
	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/api/terminal/logs"
	"github.com/gpuaas/gpuaas/api/terminal/relay"
	"github.com/gpuaas/gpuaas/dev/simssh"
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
	"github.com/gpuaas/gpuaas/product/terminal/logstream"
	"github.com/gpuaas/gpuaas/product/terminal/relayrequest"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	domain  = "gpuaas.test"
	profile = "t4-4"
	account = "t-relay"
)

// installation is a node API, a terminal server, an agent of a simulated node and its SSH server, on a real database.
type installation struct {
	t      *testing.T
	db     *pgxpool.Pool
	ca     *pki.Local
	trust  *secrettest.Trusted
	users  secret.LocalUserCA
	tasks  *nodetask.Store
	fleet  *nodehealth.Service
	certs  *secret.Certificates
	server *relay.Server
	logs   *logs.Local
	hints  *hint.Bus

	node     ids.Node
	stateDir string
	url      string // of the node API
	stop     func() // of the terminal server
	stopNode func() // of the agent
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs part until the test or the returned function ends it.
func run(t *testing.T, part func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return l
}

func setup(t *testing.T) *installation {
	t.Helper()
	i := &installation{t: t, db: pgtest.Clone(t), hints: &hint.Bus{}, stateDir: t.TempDir()}
	dir := t.TempDir()
	var err error
	i.ca, err = pki.Open(dir, clock.Clock{})
	must(t, err)
	keys, err := secret.OpenSigner(dir)
	must(t, err)
	i.trust, err = secrettest.NewTrusted(keys, t.TempDir())
	must(t, err)
	i.users, err = secret.OpenUserCA(t.TempDir(), clock.Clock{})
	must(t, err)
	i.fleet = nodehealth.New(i.db, i.hints)
	i.tasks = &nodetask.Store{DB: i.db, Signer: keys, Hints: i.hints}
	i.certs = &secret.Certificates{DB: i.db, Barred: i.fleet.Retired}
	intake := &nodeapi.Intake{
		DB: i.db, Tasks: i.tasks, Observed: &observed.Store{DB: i.db}, Inventory: i.fleet, Certificates: i.certs, Hints: i.hints,
		StaleAfter: func(ids.Node) time.Duration { return time.Minute },
	}
	api := &nodeapi.Server{
		TrustDomain: domain, Hosts: []string{"127.0.0.1"}, CA: i.ca, Statements: i.trust.Statements, Trusted: i.trust,
		Nodes: intake, Tasks: intake, Reports: intake, Relays: relayrequest.Store{DB: pgtest.As(t, i.db, "gpuaas_node")}, Hints: i.hints, Log: slog.New(slog.DiscardHandler),
	}
	l := listen(t)
	i.url = "https://" + l.Addr().String()
	run(t, func(ctx context.Context) error { return api.Serve(ctx, l) })
	i.startTerminal()
	i.startNode()
	return i
}

// startTerminal starts a terminal server with the rights of its role.
func (i *installation) startTerminal() {
	l, db := listen(i.t), pgtest.As(i.t, i.db, "gpuaas_terminal")
	i.server = &relay.Server{
		Address: l.Addr().String(), TrustDomain: domain, Roots: i.ca, Certificates: &secret.Certificates{DB: db, Barred: nodehealth.New(db, i.hints).Retired},
		Requests: relayrequest.Store{DB: db}, Signer: i.trust.Relays, Hints: i.hints, Log: slog.New(slog.DiscardHandler),
	}
	i.logs = &logs.Local{Streams: &logstream.Service{DB: db}, Dial: i.server.Dial, Log: slog.New(slog.DiscardHandler)}
	i.server.Internal = i.logs
	i.stop = run(i.t, func(ctx context.Context) error { return i.server.Serve(ctx, l) })
}

// startNode declares a node and starts its agent and its SSH server.
func (i *installation) startNode() {
	i.node = ids.New[ids.Node]()
	var token string
	must(i.t, pgx.BeginFunc(i.t.Context(), i.db, func(tx pgx.Tx) error {
		return i.fleet.Declare(i.t.Context(), tx, i.node, i.node.String(), []byte(`{"sku": "t4", "region": "eu1", "onboarding": "manual", "gpus": 4}`))
	}))
	must(i.t, pgx.BeginFunc(i.t.Context(), i.db, func(tx pgx.Tx) (err error) {
		token, _, err = i.fleet.EnrolmentToken(i.t.Context(), tx, i.node)
		return err
	}))
	i.stopNode = run(i.t, func(ctx context.Context) error {
		return agent.Run(ctx, agent.Config{
			Server: i.url, StateDir: i.stateDir, CA: i.ca.Bundle(), Token: func(context.Context) (string, error) { return token, nil },
			Driver: agent.DriverSim, Profile: profile, Hostname: "sim-1", Version: "test", Log: slog.New(slog.DiscardHandler),
		})
	})
	i.eventually("the simulated node exists", func() bool {
		_, err := sim.Read(sim.Path(i.stateDir))
		return err == nil
	})
	ssh := &simssh.Server{StateDir: i.stateDir, Log: slog.New(slog.DiscardHandler)}
	run(i.t, ssh.Serve)
}

func (i *installation) eventually(what string, is func() bool) {
	i.t.Helper()
	for range 400 {
		if is() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	i.t.Fatalf("10 seconds later it is not true that %s", what)
}

// put sends a task about an allocation and waits for its success.
func (i *installation) put(task nodetask.Task) {
	i.t.Helper()
	must(i.t, pgx.BeginFunc(i.t.Context(), i.db, func(tx pgx.Tx) error { return i.tasks.Put(i.t.Context(), tx, task) }))
	i.tasks.Hint(i.node)
	i.eventually("the task has succeeded", func() bool {
		var done bool
		must(i.t, i.db.QueryRow(i.t.Context(), `SELECT EXISTS (SELECT FROM node_tasks WHERE allocation_id = $1 AND fence = $2 AND type = $3 AND status = 'succeeded')`,
			task.Allocation, task.Fence, task.Type).Scan(&done))
		return done
	})
}

// provision makes an allocation whose certificates log in.
func (i *installation) provision(fence int64) ids.Allocation {
	i.t.Helper()
	of := ids.New[ids.Allocation]()
	gpus, err := sim.UUIDs(i.node, profile)
	must(i.t, err)
	i.put(nodetask.Task{
		Node: i.node, Allocation: of, Type: protocol.ProvisionUser, Fence: fence, Generation: 1, SpecHash: "a", Slots: gpus[:1],
		Params: protocol.ProvisionUserParams{User: account, UID: 200001, PublicKeys: []string{}, GPUs: gpus[:1], UserCA: i.users.Public(), Principal: of.String()},
	})
	return of
}

func (i *installation) release(of ids.Allocation, fence int64) {
	i.t.Helper()
	gpus, err := sim.UUIDs(i.node, profile)
	must(i.t, err)
	i.put(nodetask.Task{
		Node: i.node, Allocation: of, Type: protocol.RevokeUser, Fence: fence, Generation: 2, SpecHash: "b", Slots: gpus[:1],
		Params: protocol.RevokeUserParams{User: account, UID: 200001, GPUs: gpus[:1], Mode: "purge"},
	})
}

func (i *installation) dial(of ids.Allocation, fence int64) (net.Conn, error) {
	return i.server.Dial(i.t.Context(), relay.Target{Node: i.node, Allocation: of, Fence: fence, Kind: protocol.StreamSSH})
}

// login returns an SSH client with a certificate of the user CA for a principal.
func (i *installation) login(conn net.Conn, principal string) (*xssh.Client, error) {
	i.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(i.t, err)
	key, err := xssh.NewPublicKey(public)
	must(i.t, err)
	made, err := i.users.Sign(i.t.Context(), secret.Login{Key: key, Allocation: principal, User: "u", TTL: time.Minute, PTY: true})
	must(i.t, err)
	parsed, _, _, _, err := xssh.ParseAuthorizedKey([]byte(made.Text))
	must(i.t, err)
	signer, err := xssh.NewSignerFromKey(private)
	must(i.t, err)
	certified, err := xssh.NewCertSigner(parsed.(*xssh.Certificate), signer)
	must(i.t, err)
	config := &xssh.ClientConfig{User: account, Auth: []xssh.AuthMethod{xssh.PublicKeys(certified)}, HostKeyCallback: xssh.InsecureIgnoreHostKey(), Timeout: 10 * time.Second}
	c, channels, requests, err := xssh.NewClientConn(conn, filepath.Base(i.stateDir), config)
	if err != nil {
		return nil, err
	}
	client := xssh.NewClient(c, channels, requests)
	i.t.Cleanup(func() { _ = client.Close() })
	return client, nil
}

// client opens a stream and logs in.
func (i *installation) client(of ids.Allocation, fence int64) *xssh.Client {
	i.t.Helper()
	conn, err := i.dial(of, fence)
	must(i.t, err)
	client, err := i.login(conn, of.String())
	must(i.t, err)
	return client
}

// revoke revokes as the command of an operator does.
func (i *installation) revoke(node ids.Node) {
	i.t.Helper()
	must(i.t, pgx.BeginFunc(i.t.Context(), i.db, func(tx pgx.Tx) error {
		if err := i.fleet.RevokeTokens(i.t.Context(), tx, node); err != nil {
			return err
		}
		_, err := i.certs.Revoke(i.t.Context(), tx, node, "stolen")
		return err
	}))
}
