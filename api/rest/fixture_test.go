package rest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/stream"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/internal/secretref/secretreftest"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/fleet"
	blobfiles "github.com/gpuaas/gpuaas/product/storage/blob/files"
	"github.com/gpuaas/gpuaas/services"
)

// fixture is the API on the real services and a database of its own. The OIDC provider and the payment
// provider are the only stand-ins, because they are foreign systems.
type fixture struct {
	testing.TB

	handler  http.Handler
	server   *rest.Server
	services *services.Services
	doc      *openapi3.T
	provider *signInProvider
	db       *pgxpool.Pool // with the rights of a superuser
	database *database     // of the services
	log      *logBuffer
	now      time.Time // of the API; see ticking
	live     bool
	tokens   map[string]string // of the service account

	published
}

// published is the contract, prepared for documented.
type published struct {
	contract   *rest.Contract
	routes     *http.ServeMux // the paths of the contract
	operations map[string]openapi.Operation
}

// readContract parses the contract once for all tests.
var readContract = sync.OnceValues(func() (p published, err error) {
	p.routes, p.operations = http.NewServeMux(), map[string]openapi.Operation{}
	if p.contract, err = rest.ReadContract(); err != nil {
		return p, err
	}
	for _, op := range openapi.Operations(p.contract.Document) {
		pattern := op.Method + " " + op.Path
		p.routes.Handle(pattern, http.NotFoundHandler())
		p.operations[pattern] = op
	}
	return p, nil
})

// logBuffer stores what several requests log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var keysDir string // TestMain makes and removes it

// keys are made once for all tests.
var keys struct {
	once      sync.Once
	err       error
	authority *pki.Local
	logins    secret.LocalUserCA
	tokens    *pki.Keyring
}

func loadKeys() error {
	keys.once.Do(func() {
		if keys.authority, keys.err = pki.Open(keysDir, clock.Clock{}); keys.err != nil {
			return
		}
		if keys.logins, keys.err = secret.OpenUserCA(filepath.Join(keysDir, "logins"), clock.Clock{}); keys.err != nil {
			return
		}
		keys.tokens, keys.err = pki.OpenKeyring(filepath.Join(keysDir, "tokens"))
	})
	return keys.err
}

type option func(*fixture, *rest.Config)

// cursorKeys are those of every process of a test.
func cursorKeys(t testing.TB) *envelope.Ring {
	t.Helper()
	ring, err := envelope.NewRing(map[string][]byte{"test": []byte("32 bytes that only a test uses..")}, "test")
	must(t, err)
	return ring
}

// setup builds a world on a clone of the filled database.
func setup(t testing.TB, change ...option) *fixture {
	t.Helper()
	return setupOn(t, filled.Clone(t), change...)
}

// setupOn builds a world on a database, as another process on the same database would.
func setupOn(t testing.TB, db *pgxpool.Pool, change ...option) *fixture {
	t.Helper()
	p, err := readContract()
	must(t, err)
	w := &fixture{TB: t, published: p, doc: p.contract.Document, db: db, log: &logBuffer{}, now: t0, provider: &signInProvider{begun: map[string][3]string{}}}
	w.buildServices()
	config := rest.Config{
		Services: w.services, Tasks: &nodetask.Store{DB: w.database},
		Installer:   fleet.Installer{URL: "https://gpuaas.example:8443", Authority: keys.authority, Digest: func(string) (string, error) { return "sha256:0", nil }},
		Stream:      &stream.Server{Events: w.services.Events, Hints: w.services.Hints, Log: slog.New(slog.DiscardHandler)},
		Environment: "test", Profile: desired.Environment{Region: region},
		TokenKeys: w.services.SignIn.Tokens.Document, CursorKeys: cursorKeys(t),
		Ready:  func(context.Context) error { return nil },
		Checks: []rest.Check{{Name: "postgres", Check: func(context.Context) (rest.Status, string) { return rest.OK, "" }}},
		Limits: func(request.Class, identity.Caller) middleware.Limit {
			return middleware.Limit{PerMinute: 60, Burst: 1000}
		},
		Logs: &logNode{lines: `{"at_us":1767603604000000,"n":1,"text":"one"}` + "\n" + `{"end":"complete"}` + "\n"},
		Log:  slog.New(slog.NewJSONHandler(w.log, nil)), Clock: clock.At(w.clock),
	}
	for _, c := range change {
		c(w, &config)
	}
	w.server, err = rest.New(w.contract, config)
	must(t, err)
	w.handler = w.server.Handler()
	return w
}

func (b *fixture) buildServices() {
	b.Helper()
	ctx := context.WithoutCancel(b.Context())
	must(b, loadKeys())
	pool := pgtest.Scoped(b, b.db)
	b.database = &database{Pool: pool}
	log, hints, now := slog.New(slog.DiscardHandler), &hint.Bus{}, clock.At(b.clock)
	client := &policies.Client{DB: b.database, Hints: hints, Log: log}
	_, err := client.Refresh(ctx)
	must(b, err)
	payments, err := newPaymentProvider()
	must(b, err)
	objects, err := blobfiles.Open(b.TempDir(), now)
	must(b, err)
	b.services, err = services.New(services.Config{
		DB: b.database, Policies: client, Hints: hints, Naming: ids.DefaultNaming, Clock: now, Log: log,
		Keys: &services.Keys{
			Tokens: &signin.Tokens{Issuer: "gpuaas:test", Audience: "gpuaas-api", Keys: keys.tokens, Clock: now}, Seal: identitytest.Seal(b), Users: keys.logins,
		},
		WebhookSeal: identitytest.Seal(b), RecordingSeal: identitytest.Seal(b), Development: true,
		SignIn: b.provider, ReleaseKeys: func() map[string][]byte { return nil }, Payments: payments, PaymentMetrics: payment.NewMetrics(),
		Credentials: secretreftest.Credentials(b, "https://api.github.com", map[string]string{"hook": hookSecret}),
		PublicURL:   func() string { return "https://gpuaas.example" }, Blobs: objects,
	})
	must(b, err)
	queue, err := jobs.NewClient(pool.Pool, nil, log)
	must(b, err)
	b.services.Enqueue(queue)
	b.tokens = map[string]string{tokenProgram: b.mint("apps:read"), tokenReader: b.mint("allocations:read")}
}

// mint makes a token of the service account with one scope.
func (b *fixture) mint(scope string) string {
	b.Helper()
	token, err := b.services.SignIn.Tokens.Mint(signin.Claims{
		Account: robot, Credential: credentialID, Tenant: tenant, Project: project, Scopes: []string{scope}, Audience: "gpuaas-api", Until: t0.Add(time.Hour),
	})
	must(b, err)
	return token
}

func (b *fixture) clock() time.Time {
	if b.live {
		return time.Now()
	}
	return b.now
}

// ticking lets the clock of the API run.
func ticking(w *fixture, _ *rest.Config) { w.live = true }

// passwords allows signing in with a password.
func passwords(w *fixture, _ *rest.Config) {
	w.policy(string(policies.AuthPersonalLoginEnabled), policies.Platform, "true")
}

// policy sets a policy in the database and lets the services read it.
func (b *fixture) policy(key string, scope policies.Scope, value string) {
	b.Helper()
	b.sql(setPolicy, key, scope, value)
	_, err := b.services.Policies.Refresh(b.Context())
	must(b, err)
}

func (b *fixture) sql(statement string, args ...any) {
	b.Helper()
	if _, err := b.db.Exec(context.WithoutCancel(b.Context()), statement, args...); err != nil {
		b.Fatalf("%s: %v", statement, err)
	}
}

// read returns one value from the database.
func read[T any](w *fixture, statement string, args ...any) (value T) {
	w.Helper()
	if err := w.db.QueryRow(context.WithoutCancel(w.Context()), statement, args...).Scan(&value); err != nil {
		w.Fatalf("%s: %v", statement, err)
	}
	return value
}

func (b *fixture) count(table string) int {
	b.Helper()
	return read[int](b, `SELECT count(*) FROM `+table)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// call is one request. Without an X-Project-ID, an allocation is requested in the default project.
type call struct {
	method, path, token, body string
	header                    map[string]string
	from                      string // the connection's other end
}

func (b *fixture) do(t testing.TB, a call) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), a.method, a.path, strings.NewReader(a.body))
	if minted := b.tokens[a.token]; minted != "" {
		a.token = minted
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	if a.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.method == http.MethodPost && (a.path == allocations || a.path == allocations+"/preview") {
		req.Header.Set("X-Project-ID", "default")
	}
	for k, v := range a.header {
		req.Header.Set(k, v)
	}
	if host := a.header["Host"]; host != "" {
		req.Host = host
	}
	if a.from != "" {
		req.RemoteAddr = a.from
	}
	return b.serve(req)
}

// serve responds to a request. A stream of events ends after its first lines.
func (b *fixture) serve(req *http.Request) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	if strings.HasPrefix(req.URL.Path, "/api/v1/events") {
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		b.handler.ServeHTTP(flushedOnce{out, cancel}, req.WithContext(ctx))
		return out
	}
	b.handler.ServeHTTP(out, req)
	b.documented(req, out.Code)
	return out
}

// documented fails if the contract does not list the status of a response for its operation. The limit of headers and the
// method are checked before there is an operation.
func (b *fixture) documented(req *http.Request, status int) {
	b.Helper()
	_, pattern := b.routes.Handler(req)
	if op, found := b.operations[pattern]; found && status != http.StatusMethodNotAllowed && status != http.StatusRequestHeaderFieldsTooLarge && op.Responses.Status(status) == nil {
		b.Errorf("%s %s: the contract of %s does not list the status %d", req.Method, req.URL.Path, op.OperationID, status)
	}
}

// flushedOnce ends the request with its first flush.
type flushedOnce struct {
	*httptest.ResponseRecorder

	end func()
}

func (f flushedOnce) Flush() {
	f.ResponseRecorder.Flush()
	f.end()
}

func problem(t testing.TB, w *httptest.ResponseRecorder) oapi.Problem {
	t.Helper()
	var p oapi.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%d %s is no problem: %v", w.Code, w.Body, err)
	}
	return p
}

const allocations = "/api/v1/allocations"

func (b *fixture) allocate(t testing.TB) oapi.Allocation {
	t.Helper()
	res := b.do(t, call{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h100-sxm","name":"` + unusedName("a") + `"}`})
	var a oapi.Allocation
	if err := json.Unmarshal(res.Body.Bytes(), &a); err != nil || res.Code != http.StatusCreated {
		t.Fatalf("creating an allocation: %d %s", res.Code, res.Body)
	}
	return a
}

// make posts a body and returns the id of what was made.
func (b *fixture) make(t testing.TB, path, body string) string {
	t.Helper()
	token := tokenOwner
	if strings.Contains(path, "/admin/") {
		token = tokenAdmin
	}
	res := b.do(t, call{method: "POST", path: path, token: token, body: body})
	var made struct{ ID string }
	if err := json.Unmarshal(res.Body.Bytes(), &made); err != nil || res.Code != http.StatusCreated {
		t.Fatalf("POST %s: %d %s", path, res.Code, res.Body)
	}
	return made.ID
}

// program makes a service account and a credential of it.
func (b *fixture) program(t testing.TB) (account, credential string) {
	t.Helper()
	at := "/api/v1/projects/" + project.String() + "/service-accounts"
	account = b.make(t, at, `{"name":"`+unusedName("p")+`","scopes":["allocations:read"]}`)
	return account, b.make(t, "/api/v1/service-accounts/"+account+"/credentials", "")
}

// addUser writes a user who is a member of the tenant, and of a project unless that is zero.
func (b *fixture) addUser(in ids.Project) ids.User {
	b.Helper()
	id := ids.New[ids.User]()
	b.sql(`INSERT INTO users (id, oidc_subject, email, name, role) VALUES ($1, $2, $2, 'Some Body', 'user')`, id, unusedName("u")+"@dev.localhost")
	b.sql(`INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, 'viewer')`, tenant, id)
	if in != (ids.Project{}) {
		b.sql(`INSERT INTO project_memberships (project_id, user_id, role) VALUES ($1, $2, 'admin')`, in, id)
	}
	return id
}

// addProject writes a second project of the tenant.
func (b *fixture) addProject(name string) ids.Project {
	b.Helper()
	id := ids.New[ids.Project]()
	b.sql(`INSERT INTO projects (id, org_id, name) VALUES ($1, $2, $3)`, id, tenant, name)
	return id
}

// start writes a session of a user, and returns its id and its token.
func (b *fixture) start(token string) (ids.Session, string) {
	b.Helper()
	id, secret := ids.New[ids.Session](), newSecret("gpb_")
	b.sql(`INSERT INTO sessions (id, user_id, secret_hash, expires_at) VALUES ($1, $2, $3, now() + interval '1 hour')`, id, users[token], hashOf(secret))
	return id, secret
}

func newSecret(prefix string) string {
	a, b := uuid.New(), uuid.New()
	return prefix + base64.RawURLEncoding.EncodeToString(append(a[:], b[:]...))
}

// signIn returns the session cookie of a user.
func (b *fixture) signIn(token string) *http.Cookie {
	b.Helper()
	_, secret := b.start(token)
	return &http.Cookie{Name: "gpuaas_session", Value: secret}
}

const (
	here = "127.0.0.1:40000"
	host = "localhost:8080"
)

// visit is a request of a local browser, unless change alters it.
func (b *fixture) visit(t testing.TB, method, path, form string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	return b.serve(visitOf(t, method, path, form, change...))
}

func visitOf(t testing.TB, method, path, form string, change ...func(*http.Request)) *http.Request {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form))
	req.RemoteAddr, req.Host = here, host
	req.Header.Set("Accept", "text/html")
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", "http://"+host)
	}
	if path == allocations {
		req.Header.Set("X-Project-ID", "default")
	}
	for _, c := range change {
		c(req)
	}
	return req
}

func with(c *http.Cookie) func(*http.Request) { return func(r *http.Request) { r.AddCookie(c) } }
