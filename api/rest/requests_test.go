package rest_test

import (
	"crypto/tls"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// A browser may not frame, sniff, store or run any response of any operation, permitted or denied. Each response has
// the id of its request.
func TestSecurityHeadersAreOnEveryAnswer(t *testing.T) {
	t.Parallel()

	forEach(t, func(t *testing.T, b *fixture, op openapi.Operation) {
		for _, token := range []string{tokenFor(op), tokenUnknown} {
			w := b.do(t, call{method: op.Method, path: pathOf(op), token: token, body: bodyOf(t, op), header: map[string]string{"X-Correlation-ID": "c-1"}})
			policy := "default-src 'none'; frame-ancestors 'none'"
			if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") { // a page has our style, and no script either
				policy = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
			}
			if strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") && op.Tags[0] == "Storage" { // what a tenant has stored
				policy = "sandbox; " + policy
			}
			for name, want := range map[string]string{
				"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
				"Cache-Control": "no-store", "X-Correlation-ID": "c-1", "Strict-Transport-Security": "",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%d: %s is %q", w.Code, name, got)
				}
			}
		}
	})
	b := setup(t)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://x/livez", nil)
	req.TLS = &tls.ConnectionState{}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, req)
	if w.Header().Get("Strict-Transport-Security") == "" {
		t.Errorf("on TLS: %v", w.Header())
	}
	for _, path := range []string{"/", "/api/v1/nothing", "/api/docs", "/assets/style.css"} {
		if h := b.do(t, call{method: "GET", path: path}).Header(); !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

// A trace is carried on and answered; what is malformed is as if it were not there.
func TestTraceContext(t *testing.T) {
	t.Parallel()

	b := setup(t)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for sent, want := range map[string]string{trace: trace, "00-nonsense": "", "": ""} {
		w := b.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenOwner, header: map[string]string{"traceparent": sent}})
		if got := w.Header().Get("traceparent"); w.Code != 200 || got != want {
			t.Errorf("%q: %d, answered %q", sent, w.Code, got)
		}
	}
	b.do(t, call{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h100-sxm"}`, header: map[string]string{"traceparent": trace}})
	if kept := read[string](b, `SELECT trace FROM allocations`); kept != trace {
		t.Errorf("the allocation has the trace %q", kept)
	}
}

// The log names the rule and the actor of each decision, and 403 names who can grant the permission.
func TestDecisionsAreReturnedAndLogged(t *testing.T) {
	t.Parallel()

	b := setup(t)
	w := b.do(t, call{method: "GET", path: "/api/v1/billing/balance", token: tokenMember})
	p := problem(t, w)
	roles, _ := p.Details["roles"].([]any)
	if w.Code != 403 || p.Details["operation"] != "getBalance" || len(roles) == 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	b.do(t, call{method: "GET", path: "/api/v1/billing/balance", token: tokenOwner})
	b.do(t, call{method: "GET", path: "/api/v1/admin/nodes", token: tokenOperator})
	b.do(t, call{method: "GET", path: allocations, token: tokenOwner, header: map[string]string{"X-Project-ID": "theirs"}})
	for _, want := range []string{
		`"rule":"no role of the caller lists it","actor":"user:` + users[tokenMember].String() + `","tenant_id":"` + tenant.String(),
		`"rule":"project.admin"`, `"rule":"operator"`, `"rule":"the caller is not in this project"`,
	} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("the log does not contain %s:\n%s", want, b.log)
		}
	}
	b.metrics(t, map[string]float64{
		"gpuaas_authz_decisions_total effect=deny operation=getBalance":      1,
		"gpuaas_authz_decisions_total effect=allow operation=getBalance":     1,
		"gpuaas_authz_decisions_total effect=allow operation=listAdminNodes": 1,
		"gpuaas_authz_decisions_total effect=deny operation=listAllocations": 1,

		"gpuaas_http_errors_total code=forbidden operation=getBalance":             1,
		"gpuaas_http_request_duration_seconds operation=getBalance status=4xx":     1,
		"gpuaas_http_request_duration_seconds operation=getBalance status=2xx":     1,
		"gpuaas_http_request_duration_seconds operation=listAdminNodes status=2xx": 1,
	})
}

// A program acts in its own project and nowhere else, by its kind and its scopes.
func TestProgramsStayInTheirProject(t *testing.T) {
	t.Parallel()

	b := setup(t)
	other := b.addProject("other")
	for rule, c := range map[string]struct {
		call
		want int
	}{
		"in its project without a header": {call{method: "GET", path: "/api/v1/skus"}, 200},
		"in its project, without a scope": {call{method: "GET", path: allocations, header: map[string]string{"X-Project-ID": "default"}}, 403},
		"in its project, with one":        {call{method: "GET", path: allocations, token: tokenReader, header: map[string]string{"X-Project-ID": "default"}}, 200},
		"with one, and no header":         {call{method: "GET", path: allocations, token: tokenReader}, 200},
		"with one, beyond it":             {call{method: "POST", path: allocations, token: tokenReader, body: `{"sku":"h100-sxm"}`}, 403},
		"another of its tenant":           {call{method: "GET", path: allocations, header: map[string]string{"X-Project-ID": other.String()}}, 403},
		"a foreign one":                   {call{method: "GET", path: allocations, header: map[string]string{"X-Project-ID": ids.New[ids.Project]().String()}}, 404},
		"not an operator's":               {call{method: "GET", path: "/api/v1/admin/nodes"}, 403},
		"keys are for people":             {call{method: "GET", path: "/api/v1/ssh-keys"}, 403},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			if c.token == "" {
				c.token = tokenProgram
			}
			if w := b.do(t, c.call); w.Code != c.want {
				t.Errorf("got %d, want %d: %s", w.Code, c.want, w.Body)
			}
		})
	}
}

// A place in a list is worth nothing in another tenant's hands.
func TestCursorsBelongToATenant(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.allocate(t)
	b.allocate(t)
	var page struct {
		Next string `json:"next_cursor"`
	}
	w := b.do(t, call{method: "GET", path: allocations + "?limit=1", token: tokenOwner})
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page.Next == "" {
		t.Fatalf("%v %s", err, w.Body)
	}
	next := call{method: "GET", path: allocations + "?cursor=" + url.QueryEscape(page.Next), token: tokenOwner}
	if w := b.do(t, next); w.Code != 200 {
		t.Errorf("its own tenant: %d %s", w.Code, w.Body)
	}
	next.token = tokenTheirs
	if w := b.do(t, next); w.Code != 400 || problem(t, w).Code != "cursor_invalid" {
		t.Errorf("another tenant: %d %s", w.Code, w.Body)
	}
}

// INV-06: one effect, its answer again, also from another process, and for no other
// and nothing else.
func TestINV06RepliesBelongToTheirRequest(t *testing.T) {
	t.Parallel()

	b := setup(t)
	other := b.addProject("other")
	const body = `{"sku":"h100-sxm","name":"otter"}`
	create := func(on *fixture, token, body, project string, header map[string]string) *httptest.ResponseRecorder {
		all := map[string]string{"X-Project-ID": project}
		maps.Copy(all, header)
		return on.do(t, call{method: "POST", path: allocations, token: token, body: body, header: all})
	}
	key := map[string]string{"X-Idempotency-Key": "k1"}
	first := create(b, tokenOwner, body, "default", key)
	if first.Code != 201 || b.count("allocations") != 1 {
		t.Fatalf("%d %s", first.Code, first.Body)
	}
	again := create(setupOn(t, b.db), tokenOwner, body, "default", key)
	if again.Code != 201 || again.Body.String() != first.Body.String() || again.Header().Get("Idempotency-Replayed") != "true" ||
		again.Header().Get("ETag") != first.Header().Get("ETag") || again.Header().Get("Location") != first.Header().Get("Location") || b.count("allocations") != 1 {
		t.Errorf("after a restart: %d %v %s", again.Code, again.Header(), again.Body)
	}
	if w := create(b, tokenMember, `{"sku":"h100-sxm","name":"second"}`, "default", key); w.Code != 201 || w.Header().Get("Idempotency-Replayed") != "" || b.count("allocations") != 2 {
		t.Errorf("another's key: %d %v", w.Code, w.Header())
	}
	if w := create(b, tokenOwner, body, other.String(), key); w.Code != 422 || problem(t, w).Code != "idempotency_key_reused" {
		t.Errorf("another project: %d %s", w.Code, w.Body)
	}
	if w := create(b, tokenOwner, `{"sku":"h100-sxm"}`, "default", key); w.Code != 422 || problem(t, w).Code != "idempotency_key_reused" {
		t.Errorf("another body: %d %s", w.Code, w.Body)
	}
	both := map[string]string{"X-Idempotency-Key": "k1", "Idempotency-Key": `"k2"`}
	if w := create(b, tokenOwner, body, "default", both); w.Code != 400 || problem(t, w).Details["field"] != "Idempotency-Key" {
		t.Errorf("two keys: %d %s", w.Code, w.Body)
	}
	both["Idempotency-Key"] = `"k1"`
	if w := create(b, tokenOwner, body, "default", both); w.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("one key, twice: %d %s", w.Code, w.Body)
	}
	// The path of another route: the same key is another there.
	release := call{method: "POST", path: first.Header().Get("Location") + "/release", token: tokenOwner, header: key}
	if w := b.do(t, release); w.Code != 202 || w.Header().Get("Idempotency-Replayed") != "" {
		t.Errorf("another route: %d %s", w.Code, w.Body)
	}
	// While another transaction locks the key, the request is in progress.
	tx, err := b.db.Begin(t.Context())
	must(t, err)
	batch := &pgx.Batch{}
	b.services.Identity.QueueKey(batch, identity.Key{Principal: users[tokenOwner].UUID, Method: "POST", Route: allocations, Key: "k3"}, identity.Reply{Status: 201})
	must(t, tx.SendBatch(t.Context(), batch).Close())
	third := `{"sku":"h100-sxm","name":"third"}`
	busy := map[string]string{"X-Idempotency-Key": "k3"}
	if w := create(b, tokenOwner, third, "default", busy); w.Code != 409 || problem(t, w).Code != "idempotency_in_flight" {
		t.Errorf("at work: %d %s", w.Code, w.Body)
	}
	must(t, tx.Rollback(t.Context()))
	if w := create(b, tokenOwner, third, "default", busy); w.Code != 201 {
		t.Errorf("given up by the other: %d %s", w.Code, w.Body)
	}
}
