// Package matrix_test tests the whole HTTP API over TCP against its invariants: the real server
// with the rights of its database role, on its own database. Only the API's role runs, so a request
// caused every row that changes.
package matrix_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/secretref/secretreftest"
	"github.com/gpuaas/gpuaas/server"
)

func TestMain(m *testing.M) {
	validate.Child() // does not return in the child that evaluates files
	pgtest.Durable()
	os.Exit(m.Run())
}

// installation is a started server, with the connection of a superuser to its database.
type installation struct {
	testing.TB

	db     *pgxpool.Pool
	url    string
	log    *lines
	state  string // folder of the server's own keys
	cfg    server.Config
	server *server.Server
	client *http.Client

	// The limit of failures counts by address. Each few hundred requests therefore use
	// another address of loopback.
	requests atomic.Int64
}

// lines stores the log lines of the server.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// open starts an installation. prepare runs before the server, because the server reads the policies once.
func open(t testing.TB, prepare ...func(*installation, *server.Config)) *installation {
	t.Helper()
	// The server must outlive the context of a test, which ends before the cleanup.
	ctx := context.WithoutCancel(t.Context())
	address := pgtest.URL(t)
	db, err := pg.Open(ctx, address, "test", 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	h := &installation{TB: t, db: db, log: &lines{}, state: t.TempDir()}
	bus, err := natsd.Start(natsd.Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Stop)
	cfg := server.Config{
		DatabaseURL: address, NATS: func() (*nats.Conn, error) { return bus.Connect("matrix") }, Roles: []server.Role{server.RoleAPI},
		Environment: "matrix", Profile: desired.Environment{Vendor: "core42", Service: "aicloud", Region: region, TrustDomain: "gpuaas.test", Storage: desired.Storage{S3URL: "https://s3.example"}},
		Listen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0", StateDir: h.state,
		Credentials: secretreftest.Credentials(t, "https://git.example", map[string]string{"hook": hookSecret}),
		Log:         slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	h.plenty()
	for _, p := range prepare {
		p(h, &cfg)
	}
	h.cfg = cfg
	h.start()
	h.client = &http.Client{
		Transport:     &http.Transport{DialContext: h.dial, MaxIdleConnsPerHost: 256, MaxIdleConns: 256},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
	}
	t.Cleanup(h.stop)
	return h
}

func (h *installation) start() {
	h.Helper()
	server, err := server.Start(context.WithoutCancel(h.Context()), h.cfg)
	if err != nil {
		h.Fatal(err)
	}
	h.server, h.url = server, server.URL()
}

func (h *installation) stop() {
	h.Helper()
	h.client.CloseIdleConnections()
	if err := h.server.Stop(context.WithoutCancel(h.Context())); err != nil && !errors.Is(err, context.Canceled) {
		h.Errorf("stopping the server: %v", err)
	}
}

func (h *installation) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n := h.requests.Add(1)
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n>>8), byte(n))}}
	return d.DialContext(ctx, network, address)
}

// plenty raises the rate limits, which would otherwise reject the requests of a fast test.
func (h *installation) plenty() {
	for key, value := range map[string]string{
		"ratelimit.user_per_minute": "100000", "ratelimit.tenant_per_minute": "100000", "ratelimit.mutation_per_minute": "100000",
		"ratelimit.anonymous_per_minute": "100000", "ratelimit.signin_per_minute": "100000", "ratelimit.burst": "100000",
		"auth.personal_login_enabled": "true", "auth.step_up_minutes": "0", "allocation.max_concurrent_per_user": "1000",
		"billing.hourly_spend_limit_minor": "0", "allocation.max_concurrent_per_project": "10000", "allocation.max_concurrent_per_tenant": "100000",
	} {
		h.policy(key, "platform", value)
	}
	h.sql(`WITH r AS (UPDATE policy_revision SET revision = revision + 1 RETURNING 1)
		INSERT INTO declared_roles (name, operations, object_id) SELECT $1, $2, gen_random_uuid() FROM r`, declaredRole, declaredOperations)
}

func (h *installation) policy(key, scope, value string) {
	h.Helper()
	h.sql(`WITH r AS (UPDATE policy_revision SET revision = revision + 1 RETURNING revision)
		INSERT INTO policy_values (key, scope, subject, value, revision) SELECT $1, $2, $2, $3::jsonb, revision FROM r
		ON CONFLICT (key, scope) DO UPDATE SET value = excluded.value, revision = excluded.revision`, key, scope, value)
}

func (h *installation) sql(statement string, args ...any) {
	h.Helper()
	if _, err := h.db.Exec(context.WithoutCancel(h.Context()), statement, args...); err != nil {
		h.Fatalf("%s: %v", statement, err)
	}
}

func queryOne[T any](h *installation, statement string, args ...any) (value T) {
	h.Helper()
	if err := h.db.QueryRow(context.WithoutCancel(h.Context()), statement, args...).Scan(&value); err != nil {
		h.Fatalf("%s: %v", statement, err)
	}
	return value
}

// request is the request of one cell of the matrix.
type request struct {
	method, path string
	header       http.Header
	body         []byte
}

// answer is the response to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
}

func (a answer) code() string { return field(a.body, "code") }

func (h *installation) send(r request) answer {
	h.Helper()
	a, err := h.try(r)
	if err != nil {
		h.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	return a
}

func (h *installation) try(r request) (answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.Context()), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, h.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	if r.header != nil {
		req.Header = r.header.Clone()
	}
	if len(r.body) > 0 && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	began := time.Now()
	resp, err := h.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if resp.StatusCode == http.StatusSwitchingProtocols || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		a.took = time.Since(began)
		return a, nil // has no end
	}
	a.body, err = io.ReadAll(resp.Body)
	a.took = time.Since(began)
	return a, err
}

// secret returns a token of one of our kinds and its stored hash.
func secret(prefix string) (token string, hash []byte) {
	a, b := uuid.New(), uuid.New()
	token = prefix + base64.RawURLEncoding.EncodeToString(append(a[:], b[:]...))
	sum := sha256.Sum256([]byte(token))
	return token, sum[:]
}
