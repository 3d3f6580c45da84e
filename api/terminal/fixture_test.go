package terminal_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/api/rest/request"
	api "github.com/gpuaas/gpuaas/api/terminal"
	"github.com/gpuaas/gpuaas/api/terminal/relay"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/product/terminal/recording"
	"github.com/gpuaas/gpuaas/protocol"
)

// fixture is an installation with an active allocation, whose node has an SSH server, and a signed-in user.
type fixture struct {
	*allocationtest.Fixture
	t      *testing.T
	a      allocation.Allocation
	caller identity.Caller
	tokens *terminal.Service // of the role api
	node   *host
	limits terminal.Limits

	unforwarded atomic.Bool // the policy does not allow forwarding

	recording atomic.Value // terminal.Recording
	reader    *recording.Service
}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Fixture: allocationtest.New(t, 1_000_000), t: t, limits: terminal.Limits{TokenLife: time.Minute, Idle: time.Hour, PerAllocation: 8}}
	node := f.Node(t, "n", 1)
	f.a = f.Active(t, 1)
	f.caller = f.Caller
	f.caller.Session = ids.New[ids.Session]()
	f.exec(`INSERT INTO sessions (id, user_id, secret_hash, expires_at) VALUES ($1, $2, 'x', now() + interval '1 hour')`, f.caller.Session, f.caller.User)
	f.exec(`INSERT INTO certificates (serial, node_id, status, not_after) VALUES ('ab', $1, 'active', now() + interval '1 day')`, node)
	scoped := pgtest.Scoped(t, f.DB)
	f.tokens = &terminal.Service{
		DB: scoped, Identity: &identity.Service{DB: scoped}, Hints: f.Hints, Naming: ids.DefaultNaming, Limits: f.limitsOf, Address: func() string { return "wss://x" },
	}
	f.node = newHost(t, f.a.ID)
	f.Do(t, func(tx pgx.Tx) error {
		_, err := (&observed.Store{DB: f.DB}).Report(t.Context(), tx, node, allocationtest.Report(node, 1), time.Hour)
		return err
	})
	f.reports(f.node.keys...)
	return f
}

func (f *fixture) limitsOf(ids.Tenant, ids.Project) terminal.Limits {
	limits := f.limits
	limits.Forwarding = !f.unforwarded.Load()
	limits.Recording, _ = f.recording.Load().(terminal.Recording)
	return limits
}

// reports stores the host keys that the node has reported.
func (f *fixture) reports(keys ...string) {
	f.t.Helper()
	text, err := json.Marshal(map[string]any{"host_keys": append([]string{}, keys...)})
	if err != nil {
		f.t.Fatal(err)
	}
	f.exec(`UPDATE observed_nodes SET origin = jsonb_build_object('body', $1::text)`, base64.StdEncoding.EncodeToString(text))
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.DB.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) text(sql string, args ...any) (v string) {
	f.t.Helper()
	if err := f.DB.QueryRow(f.t.Context(), sql, args...).Scan(&v); err != nil {
		f.t.Fatal(err)
	}
	return v
}

func (f *fixture) scope() context.Context {
	return pg.WithScope(f.t.Context(), pg.Scope{Tenant: f.caller.Tenant.String(), Principal: f.caller.User.String()})
}

func (f *fixture) token(r terminal.TokenRequest) string {
	f.t.Helper()
	made, err := f.tokens.CreateToken(f.scope(), identity.Change[terminal.Token]{Caller: f.caller}, f.a, r)
	if err != nil {
		f.t.Fatal(err)
	}
	return made.Token
}

func (f *fixture) shellToken() string { return f.token(terminal.TokenRequest{Purpose: terminal.Shell}) }

// server is one server of the role terminal.
type server struct {
	*api.Server
	f    *fixture
	url  string
	db   *pgxpool.Pool
	stop func()
}

// serve starts a server. Its hints are its own: a hint is lost unless it is sent there.
func (f *fixture) serve(times api.Times, with ...func(*api.Server)) *server {
	f.t.Helper()
	db := pgtest.As(f.t, f.DB, "gpuaas_terminal")
	sessions := &terminal.Service{
		DB: db, Identity: &identity.Service{DB: db}, Hints: f.Hints, Naming: ids.DefaultNaming, Limits: f.limitsOf,
		May: request.RightTo("createTerminalToken", func() policies.RoleTable { return policies.RoleTable{} }),
	}
	peers, at := f.peers(sessions)
	s := &server{f: f, db: db, Server: &api.Server{
		Sessions: sessions, Advertise: at, Peer: func(at terminal.Instance) http.RoundTripper { return peers.Peer(at.Address, at.Key) },
		Dial: f.node.dial, Sign: f.node.sign, LoginLife: func() time.Duration { return time.Minute }, PublicURL: func() string { return "https://gpuaas.example" },
		Hints: &hint.Bus{}, Metrics: api.NewMetrics(), Log: slog.New(slog.DiscardHandler), Times: times,
	}}
	for _, set := range with {
		set(s.Server)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	if err := s.Start(ctx); err != nil {
		f.t.Fatal(err)
	}
	peers.Terminals = s.Forwarded()
	listener := httptest.NewServer(s.Handler())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	s.url, s.stop = listener.URL, func() { cancel(); <-done }
	f.t.Cleanup(func() { s.stop(); listener.CloseClientConnections(); listener.Close() })
	return s
}

// peers starts the listener of a server for other servers, which is that for agents.
func (f *fixture) peers(sessions *terminal.Service) (*relay.Server, terminal.Instance) {
	f.t.Helper()
	ca, err := pki.Open(f.t.TempDir(), clock.Clock{})
	if err != nil {
		f.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	s := &relay.Server{Address: listener.Addr().String(), Roots: ca, HasKey: sessions.HasKey, Log: slog.New(slog.DiscardHandler)}
	key, err := s.Key()
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Serve(ctx, listener) }()
	f.t.Cleanup(func() { cancel(); <-ended })
	return s, terminal.Instance{Address: s.Address, Key: key}
}

func offered(token string) string {
	return "gpuaas.bearer." + base64.RawURLEncoding.EncodeToString([]byte(token))
}

// dial opens a websocket, and returns the response of a rejection.
func (s *server) dial(path, token string, header http.Header, protocols ...string) (*websocket.Conn, *http.Response) {
	s.f.t.Helper()
	if token != "" {
		protocols = append(protocols, offered(token))
	}
	conn, resp, err := websocket.Dial(s.f.t.Context(), s.url+path, &websocket.DialOptions{Subprotocols: protocols, HTTPHeader: header})
	if err != nil {
		return nil, resp
	}
	conn.SetReadLimit(-1)
	s.f.t.Cleanup(func() { _ = conn.CloseNow() })
	return conn, resp
}

// term is a client of a terminal.
type term struct {
	t    *testing.T
	conn *websocket.Conn
	id   uuid.UUID
	out  bytes.Buffer
	last map[string]any // the last message of text
}

func (s *server) open(token string) *term {
	s.f.t.Helper()
	conn, resp := s.dial("/ws/terminal/"+s.f.a.ID.String(), token, nil, api.ShellProtocol)
	if conn == nil {
		body, _ := io.ReadAll(resp.Body)
		s.f.t.Fatalf("%s: %s", resp.Status, body)
	}
	c := &term{t: s.f.t, conn: conn}
	c.until(func() bool { return c.last["type"] == "session" })
	c.id = uuid.MustParse(c.last["id"].(string))
	return c
}

func (c *term) step() error {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	kind, p, err := c.conn.Read(ctx)
	switch {
	case err != nil:
		return err
	case kind == websocket.MessageBinary:
		c.out.Write(p)
		return nil
	}
	c.last = nil
	return json.Unmarshal(p, &c.last)
}

func (c *term) until(ok func() bool) {
	c.t.Helper()
	for !ok() {
		if err := c.step(); err != nil {
			c.t.Fatalf("%v, after %q and %v", err, c.out.String(), c.last)
		}
	}
}

func (c *term) shows(text string) {
	c.t.Helper()
	c.until(func() bool { return strings.Contains(c.out.String(), text) })
}

func (c *term) types(text string) {
	_ = c.conn.Write(c.t.Context(), websocket.MessageBinary, []byte(text))
}

func (c *term) says(text string) {
	_ = c.conn.Write(c.t.Context(), websocket.MessageText, []byte(text))
}

// closed reads until the websocket is closed.
func (c *term) closed() websocket.CloseError {
	c.t.Helper()
	for {
		if err := c.step(); err != nil {
			var e websocket.CloseError
			if !errors.As(err, &e) {
				c.t.Fatalf("no close code: %v", err)
			}
			return e
		}
	}
}

// host is the SSH server of a node.
type host struct {
	t          *testing.T
	authority  ssh.Signer
	allocation ids.Allocation
	listener   net.Listener
	config     *ssh.ServerConfig
	keys       []string // public host keys

	mu       sync.Mutex
	keyID    string
	received []string // requests of sessions
	dials    atomic.Int64
}

func newHost(t *testing.T, of ids.Allocation) *host {
	t.Helper()
	signer := func() ssh.Signer {
		_, private, _ := ed25519.GenerateKey(nil)
		s, err := ssh.NewSignerFromKey(private)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	h := &host{t: t, authority: signer(), allocation: of}
	check := ssh.CertChecker{
		IsUserAuthority: func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), h.authority.PublicKey().Marshal()) },
	}
	h.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		c, ok := k.(*ssh.Certificate)
		if !ok || !check.IsUserAuthority(c.SignatureKey) {
			return nil, errors.New("no certificate of the authority")
		}
		h.mu.Lock()
		h.keyID = c.KeyId
		h.mu.Unlock()
		return nil, check.CheckCert(of.String(), c)
	}}
	key := signer()
	h.config.AddHostKey(key)
	h.keys = []string{protocol.HostKeyLine(key.PublicKey())}
	var err error
	if h.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.listener.Close() })
	go func() {
		for {
			conn, err := h.listener.Accept()
			if err != nil {
				return
			}
			go h.serve(conn)
		}
	}()
	return h
}

func (h *host) dial(ctx context.Context, to api.Target) (net.Conn, error) {
	if h.dials.Add(1); to.Allocation != h.allocation || to.Fence < 1 {
		return nil, fmt.Errorf("unexpected target %v", to)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", h.listener.Addr().String())
}

func (h *host) sign(_ context.Context, key ssh.PublicKey, id ids.Allocation, user string, ttl time.Duration) (allocation.Login, error) {
	now := clock.Clock{}.Now()
	c := &ssh.Certificate{
		Key: key, Serial: 7, CertType: ssh.UserCert, KeyId: user, ValidPrincipals: []string{id.String()},
		ValidAfter: uint64(now.Add(-time.Minute).Unix()), ValidBefore: uint64(now.Add(ttl).Unix()),
	}
	if err := c.SignCert(nil2rand{}, h.authority); err != nil {
		return allocation.Login{}, err
	}
	return allocation.Login{Certificate: string(ssh.MarshalAuthorizedKey(c)), Serial: c.Serial}, nil
}

// nil2rand is a source for signatures that need no randomness.
type nil2rand struct{}

func (nil2rand) Read(p []byte) (int, error) { return len(p), nil }

func (h *host) serve(conn net.Conn) {
	_, channels, requests, err := ssh.NewServerConn(conn, h.config)
	if err != nil {
		_ = conn.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	for one := range channels {
		channel, requests, err := one.Accept()
		if err != nil {
			return
		}
		go h.session(channel, requests)
	}
}

// session runs a shell that knows exit, flood, print and requests.
func (h *host) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	for r := range requests {
		h.mu.Lock()
		h.received = append(h.received, fmt.Sprintf("%s %q", r.Type, r.Payload))
		h.mu.Unlock()
		_ = r.Reply(true, nil)
		if r.Type == "shell" || r.Type == "exec" {
			go h.shell(channel)
		}
	}
}

func (h *host) shell(channel ssh.Channel) {
	in := bufio.NewScanner(channel)
	status := uint32(0)
	_, _ = io.WriteString(channel, "$ ")
	for in.Scan() {
		line := in.Text()
		switch {
		case strings.HasPrefix(line, "exit "):
			_, _ = fmt.Sscanf(line, "exit %d", &status)
		case line == "flood":
			for range 64 {
				_, _ = channel.Write(bytes.Repeat([]byte{'x'}, 64<<10))
			}
			continue
		case line == "cut":
			_ = channel.Close()
			return
		case line == "mark":
			h.mu.Lock()
			h.received = append(h.received, line)
			h.mu.Unlock()
			continue
		case strings.HasPrefix(line, "print "):
			text := ""
			_ = json.Unmarshal([]byte(line[len("print "):]), &text)
			_, _ = io.WriteString(channel, text)
			continue
		default:
			_, _ = io.WriteString(channel, "> "+line+"\r\n")
			continue
		}
		break
	}
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
	_ = channel.Close()
}

func (h *host) requests() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.received, "\n")
}

// eventually polls until a condition is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

func newKey(t *testing.T) (ssh.PublicKey, ssh.Signer) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s.PublicKey(), s
}
