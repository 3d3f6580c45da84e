package rest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// bundle is a door with fakes behind it.
type bundle struct {
	door    http.Handler
	server  *rest.Server
	people  *people
	rooms   *rooms
	doc     *openapi3.T
	trail   *trail
	till    *till
	archive *archive
	log     *bytes.Buffer
	now     time.Time
}

func setup(t testing.TB, change ...func(*rest.Config)) *bundle {
	t.Helper()
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{people: newPeople(), doc: doc, log: &bytes.Buffer{}, now: t0}
	b.trail = &trail{rows: records(b.people.tenant, 2)}
	b.till = &till{}
	b.archive = &archive{people: b.people}
	b.rooms = &rooms{people: b.people, all: map[ids.Allocation]allocation.Allocation{}}
	cfg := rest.Config{
		Identity: b.people, Catalog: shop{}, Allocations: b.rooms, Inventory: machines{b.people}, Machines: machines{b.people}, Metering: meter{}, Ledger: purse{}, Billing: office{}, Statements: office{}, Payments: b.till,
		Events: facts{}, Desired: b.archive, Changes: changes{b.archive}, History: history{b.archive}, Trace: b.archive.Trace, Hook: b.archive.Hook, Known: b.archive.Known, AuditLog: b.trail, Currency: func() string { return "EUR" }, CursorKey: []byte("a key of a test, and of nothing else"),
		Ready:  func(context.Context) error { return nil },
		Checks: []rest.Check{{Name: "postgres", Ask: func(context.Context) (rest.Status, string) { return rest.OK, "" }}},
		Limits: func(rest.Class, identity.Caller) rest.Limit { return rest.Limit{PerMinute: 60, Burst: 1000} },
		Log:    slog.New(slog.NewJSONHandler(b.log, nil)),
		Clock:  clock.At(func() time.Time { return b.now }),
	}
	for _, c := range change {
		c(&cfg)
	}
	if b.server, err = rest.New(cfg); err != nil {
		t.Fatal(err)
	}
	b.door = b.server.Handler()
	return b
}

type ask struct {
	method, path, token, body string
	header                    map[string]string
	from                      string // the connection's other end
}

func (b *bundle) do(t *testing.T, a ask) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), a.method, a.path, strings.NewReader(a.body))
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	if a.body != "" {
		req.Header.Set("Content-Type", "application/json")
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
	w := httptest.NewRecorder()
	b.door.ServeHTTP(w, req)
	return w
}

func problem(t *testing.T, w *httptest.ResponseRecorder) oapi.Problem {
	t.Helper()
	var p oapi.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%d %s is no problem: %v", w.Code, w.Body, err)
	}
	return p
}

func (b *bundle) allocate(t *testing.T) oapi.Allocation {
	t.Helper()
	w := b.do(t, ask{method: "POST", path: "/api/v1/allocations", token: tokenOwner, body: `{"sku":"h100-sxm","gpus":2,"name":"otter"}`})
	var a oapi.Allocation
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusCreated {
		t.Fatalf("creating an allocation: %d %s", w.Code, w.Body)
	}
	return a
}

var parameter = regexp.MustCompile(`\{[a-z_]+\}`)

// pathOf fills the parameters of an operation's path with things that exist, each
// made for this call: others may be deleting theirs meanwhile.
func (b *bundle) pathOf(t *testing.T, op openapi.Operation) string {
	t.Helper()
	path := op.Path
	switch {
	case strings.HasPrefix(path, "/api/v1/allocations/{id}"):
		return parameter.ReplaceAllString(path, b.allocate(t).Id.String())
	case strings.Contains(path, "/payments/sessions/{id}"):
		return parameter.ReplaceAllString(path, paid.ID.String())
	case strings.Contains(path, "/sessions/{id}"):
		return parameter.ReplaceAllString(path, b.people.start(users[tokenFor(op)]).String())
	case strings.Contains(path, "{service_account_id}"):
		account, credential := b.program(t)
		return strings.NewReplacer("{service_account_id}", account.String(), "{credential_id}", credential.String()).Replace(path)
	case strings.Contains(path, "/git-sources/{name}"):
		return strings.Replace(path, "{name}", fleetSource.Name, 1)
	case strings.Contains(path, "/nodes/{name}"):
		return strings.Replace(path, "{name}", node1.Name, 1)
	case strings.Contains(path, "/slots/{id}"):
		return strings.Replace(path, "{id}", slot1.ID.String(), 1)
	case strings.Contains(path, "/plans/{id}/"):
		return strings.Replace(path, "{id}", change1.ID.String(), 1)
	case strings.Contains(path, "/drift/{id}"):
		return strings.Replace(path, "{id}", drift1.ID.String(), 1)
	}
	made := map[string]func() string{
		"/api/v1/skus/{sku}":              func() string { return h100.Name },
		"/api/v1/ssh-keys/{id}":           func() string { return ids.New[ids.SSHKey]().String() },
		"/api/v1/api-keys/{id}":           func() string { return b.make(t, "/api/v1/api-keys", `{"name":"ci"}`) },
		"/api/v1/tenant/invitations/{id}": func() string { return b.make(t, "/api/v1/tenant/invitations", `{"email":"a@b.test","role":"member"}`) },
		"/api/v1/admin/desired/{kind}":    func() string { return "Node" },
		"/api/v1/admin/plans/{id}":        func() string { return plan1.ID.String() },
	}
	if one, ok := made[path]; ok {
		return parameter.ReplaceAllString(path, one())
	}
	for _, v := range []struct {
		name string
		make func() string
	}{
		{"{project_id}", func() string { return b.make(t, "/api/v1/projects", `{"name":"p-`+strings.ToLower(rand.Text())+`"}`) }},
		{"{tenant_id}", b.people.tenant.String},
		{"{user_id}", func() string { return b.somebody(t, path).String() }},
		{"{month}", func() string { return "2026-01" }},
		{"{kind}", func() string { return "Node" }},
		{"{name}", func() string { return declared.Name }},
		{"{revision}", func() string { return "7" }},
		{"{key}", func() string { return windowKey }},
		{"{source}", func() string { return fleetSource.Name }},
	} {
		if before, rest, has := strings.Cut(path, v.name); has {
			path = before + v.make() + rest
		}
	}
	return path
}

// make posts a body and returns the id of what was made.
func (b *bundle) make(t *testing.T, path, body string) string {
	t.Helper()
	token := tokenOwner
	if strings.Contains(path, "/admin/") {
		token = tokenAdmin
	}
	w := b.do(t, ask{method: "POST", path: path, token: token, body: body})
	var made struct{ ID string }
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusCreated {
		t.Fatalf("POST %s: %d %s", path, w.Code, w.Body)
	}
	return made.ID
}

// program makes a service account and a credential of it.
func (b *bundle) program(t *testing.T) (ids.ServiceAccount, ids.Credential) {
	t.Helper()
	at := "/api/v1/projects/" + b.people.project.String() + "/service-accounts"
	account := b.make(t, at, `{"name":"p-`+strings.ToLower(rand.Text())+`","scopes":["allocations:read"]}`)
	credential := b.make(t, "/api/v1/service-accounts/"+account+"/credentials", "")
	return ids.From[ids.ServiceAccount](uuid.MustParse(account)), ids.From[ids.Credential](uuid.MustParse(credential))
}

// somebody makes a person who is where the path looks for one.
func (b *bundle) somebody(t *testing.T, path string) ids.User {
	t.Helper()
	id := ids.From[ids.User](uuid.MustParse(b.make(t, "/api/v1/admin/users", `{"email":"somebody@dev.localhost","name":"Some Body"}`)))
	b.people.mu.Lock()
	defer b.people.mu.Unlock()
	for of, all := range b.people.members {
		if strings.Contains(path, of.String()) || strings.HasPrefix(path, "/api/v1/tenant/") && of == b.people.tenant.UUID {
			all[id] = identity.Member{User: id, Email: "somebody@dev.localhost", Name: "Some Body", Role: "member"}
		}
	}
	return id
}

// fresh are the headers without which an operation refuses a change.
func fresh(op openapi.Operation) map[string]string {
	for _, p := range op.Parameters {
		if p.Value.Name == "If-Match" {
			return map[string]string{"If-Match": "*"}
		}
	}
	return nil
}

// tokenFor is somebody who may call the operation.
func tokenFor(op openapi.Operation) string {
	switch {
	case op.Security != nil:
		return ""
	case strings.Contains(op.Path, "/admin/"):
		return tokenAdmin
	}
	return tokenOwner
}

// signsIn are bodies by which the fakes know who signs in.
var signsIn = map[string]string{
	"exchangeOidc":  `{"id_token":"` + tokenOwner + `"}`,
	"loginPersonal": `{"email":"` + tokenOwner + `@dev.localhost","password":"` + rightPassword + `"}`,
}

// bodyOf is the example of the contract, or a body by which a fake knows somebody.
func bodyOf(t *testing.T, op openapi.Operation) string {
	t.Helper()
	if op.RequestBody == nil {
		return ""
	}
	if body := signsIn[op.OperationID]; body != "" {
		return body
	}
	if op.Extensions["x-signed"] != nil {
		return signedEvent
	}
	m := op.RequestBody.Value.Content["application/json"]
	if m.Example == nil {
		return "{}"
	}
	text, err := json.Marshal(m.Example)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// each runs for every operation of the contract, against one door.
func each(t *testing.T, run func(t *testing.T, b *bundle, op openapi.Operation)) {
	t.Helper()
	b := setup(t, provider, passwords)
	for _, op := range openapi.Operations(b.doc) {
		t.Run(op.OperationID, func(t *testing.T) {
			t.Parallel()
			run(t, b, op)
		})
	}
}

// conforms holds a response against the contract: status, headers, media type, body.
func (b *bundle) conforms(t *testing.T, op openapi.Operation, w *httptest.ResponseRecorder) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), op.Method, op.Path, nil)
	err := openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: req,
			Route:   &routers.Route{Spec: b.doc, Path: op.Path, PathItem: b.doc.Paths.Value(op.Path), Method: op.Method, Operation: op.Operation},
		},
		Status: w.Code, Header: w.Header(), Body: io.NopCloser(bytes.NewReader(w.Body.Bytes())),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		t.Errorf("%d %s: %v", w.Code, w.Body, err)
	}
}

// What works answers as the contract says, and so does every kind of refusal.
func TestResponsesConform(t *testing.T) {
	t.Parallel()

	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/problem+json", openapi3filter.JSONBodyDecoder)
	each(t, func(t *testing.T, b *bundle, op openapi.Operation) {
		path, token, body := b.pathOf(t, op), tokenFor(op), bodyOf(t, op)

		w := b.do(t, ask{method: op.Method, path: path, token: token, body: body, header: fresh(op)})
		if w.Code >= http.StatusBadRequest {
			t.Errorf("answers %d: %s", w.Code, w.Body)
		}
		b.conforms(t, op, w)
		if op.Security == nil {
			b.conforms(t, op, b.do(t, ask{method: op.Method, path: path, body: body}))
		}
		b.conforms(t, op, b.do(t, ask{method: op.Method, path: path + "?nonsense=1", token: token, body: body, header: map[string]string{"Accept": "application/problem+json"}}))
	})
}

// Every operation's bad body is a 400 that names the field; so are a parameter
// that is unknown, and a body where none is taken.
func TestBadInputNamesTheField(t *testing.T) {
	t.Parallel()

	each(t, func(t *testing.T, b *bundle, op openapi.Operation) {
		path, token, good := b.pathOf(t, op), tokenFor(op), bodyOf(t, op)
		expect := func(a ask, code oapi.ErrorCode, field string) {
			t.Helper()
			a.method, a.token = op.Method, token
			w := b.do(t, a)
			p := problem(t, w)
			if w.Code != http.StatusBadRequest || p.Code != code || p.Details["field"] != field {
				t.Errorf("%s: got %d %s at %v: %s; want 400 %s at %s", a.body, w.Code, p.Code, p.Details["field"], p.Message, code, field)
			}
			b.conforms(t, op, w)
		}
		expect(ask{path: path + "?nonsense=1", body: good}, oapi.ErrorCodeUnknownParameter, "nonsense")
		if op.RequestBody == nil {
			expect(ask{path: path, body: `{}`}, oapi.ErrorCodeValidationError, "body")
			return
		}
		if op.Extensions["x-signed"] != nil { // whoever signs it looks into it
			expect(ask{path: path}, oapi.ErrorCodeValidationError, "body")
			return
		}
		expect(ask{path: path, body: `{"sku":`}, oapi.ErrorCodeValidationError, "body")
		expect(ask{path: path, body: good + good}, oapi.ErrorCodeValidationError, "body")
		expect(ask{path: path, body: `[]`}, oapi.ErrorCodeValidationError, "body")
		schema := op.RequestBody.Value.Content["application/json"].Schema.Value
		if op.RequestBody.Value.Required {
			expect(ask{path: path}, oapi.ErrorCodeValidationError, "body")
		}
		for what, bad := range broken(t, schema, good) {
			expect(ask{path: path, body: bad}, oapi.ErrorCodeValidationError, what)
		}
	})
}

// broken are bodies with one fault each, made from the schema, by the field that
// is at fault.
func broken(t *testing.T, schema *openapi3.Schema, good string) map[string]string {
	t.Helper()
	bodies := map[string]string{}
	put := func(field string, value any, drop bool) {
		var body map[string]any
		if err := json.Unmarshal([]byte(good), &body); err != nil {
			t.Fatal(err)
		}
		body[field] = value
		if drop {
			delete(body, field)
		}
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		bodies[field] = string(text)
	}
	put("nonsense", 1, false)
	for name, p := range schema.Properties {
		switch {
		case p.Value.Type.Is("string"):
			put(name, 7, false)
		default:
			put(name, "seven", false)
		}
	}
	for _, name := range schema.Required {
		put(name, nil, true)
	}
	return bodies
}

// Beyond types: what each field of a request may hold.
func TestAllocationRequestLimits(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for rule, c := range map[string]struct{ body, field string }{
		"at least one GPU":            {`{"sku":"x","gpus":0}`, "gpus"},
		"whole GPUs":                  {`{"sku":"x","gpus":1.5}`, "gpus"},
		"a name is a DNS label":       {`{"sku":"x","name":"Not A Label"}`, "name"},
		"names fit":                   {`{"sku":"x","name":"` + strings.Repeat("a", 64) + `"}`, "name"},
		"keys are ids":                {`{"sku":"x","ssh_key_ids":["laptop"]}`, "ssh_key_ids.0"},
		"labels are text":             {`{"sku":"x","labels":{"team":1}}`, "labels.team"},
		"a lease lasts a minute":      {`{"sku":"x","ttl_seconds":1}`, "ttl_seconds"},
		"null is no default":          {`{"sku":"x","region":null}`, "region"},
		"field names match exactly":   {`{"sku":"x","GPUs":4}`, "GPUs"},
		"no zero byte in text":        {`{"sku":"x","labels":{"a":"\u0000"}}`, "labels.a"},
		"no zero byte in a name":      {`{"sku":"x","labels":{"\u0000":"a"}}`, "labels"},
		"the first of unknown fields": {`{"sku":"x","b":1,"a":1}`, "a"},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			w := b.do(t, ask{method: "POST", path: "/api/v1/allocations", token: tokenOwner, body: c.body})
			if p := problem(t, w); w.Code != http.StatusBadRequest || p.Details["field"] != c.field || p.Message == "" {
				t.Errorf("got %d at %v: %s", w.Code, p.Details["field"], p.Message)
			}
		})
	}
}

func TestQueryAndPathParametersAreChecked(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for rule, c := range map[string]struct{ path, field string }{
		"limit is a number":  {"/api/v1/allocations?limit=many", "limit"},
		"limit has a bound":  {"/api/v1/allocations?limit=5000", "limit"},
		"limit is positive":  {"/api/v1/allocations?limit=0", "limit"},
		"status is a state":  {"/api/v1/allocations?status=running", "status"},
		"given once":         {"/api/v1/allocations?sku=a&sku=b", "sku"},
		"times are RFC 3339": {"/api/v1/billing/usage?from=yesterday", "from"},
		"ids are UUIDs":      {"/api/v1/allocations/otter", "id"},
		"kinds are known":    {"/api/v1/admin/desired/Pod", "kind"},
		"no zero byte":       {"/api/v1/allocations?sku=%00", "sku"},
		"UTF-8":              {"/api/v1/allocations?name=%ff", "name"},
		"no zero byte, path": {"/api/v1/skus/%00", "sku"},
		"UTF-8, path":        {"/api/v1/admin/nodes/%ff", "name"},
		"nothing dropped":    {"/api/v1/allocations?status=active;sku=a", "query"},
		"escapes are whole":  {"/api/v1/allocations?%zz", "query"},
		"periods run on":     {"/api/v1/billing/usage?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "to"},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			token := tokenOwner
			if strings.Contains(c.path, "/admin/") {
				token = tokenAdmin
			}
			w := b.do(t, ask{method: "GET", path: c.path, token: token})
			if p := problem(t, w); w.Code != http.StatusBadRequest || p.Code != oapi.ErrorCodeValidationError || p.Details["field"] != c.field {
				t.Errorf("got %d %s at %v: %s", w.Code, p.Code, p.Details["field"], p.Message)
			} else if strings.Contains(p.Message, "schema") || strings.Contains(p.Message, "unmarshal") {
				t.Errorf("speaks of how it was found: %q", p.Message)
			}
		})
	}
}
