package rest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
)

func TestProblemsHaveOneForm(t *testing.T) {
	t.Parallel()

	b := setup(t)
	w := b.do(t, call{method: "GET", path: allocations, header: map[string]string{"X-Correlation-ID": "mine-1"}})
	p := problem(t, w)
	if w.Code != 401 || p.Code != "token_missing" || p.CorrelationId != "mine-1" || p.Type != "/docs/reference/errors#token_missing" ||
		p.Status != 401 || p.Title != "Unauthorized" || p.Instance != allocations || p.Details["suggestion"] == "" || p.Message == "" {
		t.Errorf("%+v", p)
	}
	if w.Header().Get("Content-Type") != "application/json" || w.Header().Get("X-Correlation-ID") != "mine-1" || w.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("%v", w.Header())
	}
	w = b.do(t, call{method: "GET", path: allocations, header: map[string]string{"Accept": "application/problem+json", "X-Correlation-ID": "a b\tc"}})
	if w.Header().Get("Content-Type") != "application/problem+json" || len(w.Header().Get("X-Correlation-ID")) != 36 {
		t.Errorf("%v", w.Header())
	}
}

// A failure without a code is ours: the client learns nothing of it, the log all.
func TestUncodedFailuresStayInside(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.database.fail("FROM allocations", 0, errors.New("password=hunter2"))
	w := b.do(t, call{method: "GET", path: allocations + "/" + ids.New[ids.Allocation]().String(), token: tokenOwner})
	if p := problem(t, w); w.Code != 500 || p.Code != "internal" || strings.Contains(w.Body.String(), "hunter2") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(b.log.String(), "hunter2") {
		t.Error("the log does not contain the cause")
	}
}

// A restart of PostgreSQL is no mistake of the caller, and ends soon.
func TestAbsentDatabaseIsUnavailable(t *testing.T) {
	t.Parallel()

	for what, cause := range map[string]error{
		"shut down":       &pgconn.PgError{Code: "57P01"},
		"starting":        &pgconn.PgError{Code: "57P03"},
		"connection lost": &pgconn.PgError{Code: "08006"},
		"no listener":     &pgconn.ConnectError{},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.database.fail("FROM allocations", 0, fmt.Errorf("querying: %w", cause))
			w := b.do(t, call{method: "GET", path: allocations + "/" + ids.New[ids.Allocation]().String(), token: tokenOwner})
			if w.Code != 503 || w.Header().Get("Retry-After") == "" || problem(t, w).Code != "unavailable" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

// An allocation, its cost and what its node reported are read together.
func TestAnAllocationIsReadInOneRoundTrip(t *testing.T) {
	t.Parallel()

	b := setup(t)
	path := allocations + "/" + b.allocate(t).Id.String()
	for _, of := range []string{path, path + "/why"} {
		b.do(t, call{method: "GET", path: of, token: tokenOwner}) // the caller is cached from here on
		b.database.watch("FROM allocations")
		if w := b.do(t, call{method: "GET", path: of, token: tokenOwner}); w.Code != 200 {
			t.Errorf("%s: %d %s", of, w.Code, w.Body)
		}
		if n := b.database.roundTrips(); n != 1 {
			t.Errorf("%s: %d round trips", of, n)
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()

	b := setup(t)
	if w := b.do(t, call{method: "GET", path: "/api/v1/nothing"}); w.Code != 404 || problem(t, w).Code != "not_found" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w := b.do(t, call{method: "PATCH", path: allocations, token: tokenOwner})
	if w.Code != 405 || problem(t, w).Code != "method_not_allowed" || !strings.Contains(w.Header().Get("Allow"), "POST") {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
}

func TestPanicsEndOneRequestOnly(t *testing.T) {
	t.Parallel()

	b := setup(t, func(_ *fixture, c *rest.Config) { c.Ready = func(context.Context) error { panic("broken") } })
	if w := b.do(t, call{method: "GET", path: "/readyz"}); w.Code != 500 || problem(t, w).Code != "internal" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := b.do(t, call{method: "GET", path: "/livez"}); w.Code != 200 {
		t.Errorf("afterwards: %d", w.Code)
	}
}

// Every operation: no token, a bad token, and a caller whose role does not allow it.
func TestWhoMayCall(t *testing.T) {
	t.Parallel()

	forEach(t, func(t *testing.T, b *fixture, op openapi.Operation) {
		if op.Security != nil {
			t.Skip("open to everyone")
		}
		path, body := pathOf(op), bodyOf(t, op)
		for token, code := range map[string]oapi.ErrorCode{"": "token_missing", tokenUnknown: "token_invalid", tokenExpired: "token_expired"} {
			if w := b.do(t, call{method: op.Method, path: path, body: body, token: token}); w.Code != 401 || problem(t, w).Code != code {
				t.Errorf("token %q: %d %s", token, w.Code, w.Body)
			}
		}
		if strings.Contains(op.Path, "/admin/") {
			for _, token := range []string{tokenOwner, tokenMember, tokenStranger} {
				if w := b.do(t, call{method: op.Method, path: path, body: body, token: token}); w.Code != 403 || problem(t, w).Code != "forbidden" {
					t.Errorf("%s: %d %s", token, w.Code, w.Body)
				}
			}
		}
	})
}

func TestRolesDecide(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for rule, c := range map[string]struct {
		call
		want int
	}{
		"a member requests GPUs":              {call{method: "POST", path: allocations, token: tokenMember, body: `{"sku":"h100-sxm"}`}, 201},
		"an operator does not":                {call{method: "POST", path: allocations, token: tokenOperator, body: `{"sku":"h100-sxm"}`}, 403},
		"who is in no project does not":       {call{method: "POST", path: allocations, token: tokenStranger, body: `{"sku":"h100-sxm"}`}, 403},
		"a member sees no balance":            {call{method: "GET", path: "/api/v1/billing/balance", token: tokenMember}, 403},
		"an admin sees the balance":           {call{method: "GET", path: "/api/v1/billing/balance", token: tokenAdmin}, 200},
		"an operator reads nodes":             {call{method: "GET", path: "/api/v1/admin/nodes", token: tokenOperator}, 200},
		"an operator enrols none":             {call{method: "POST", path: "/api/v1/admin/nodes/sim-1/enrolment-token", token: tokenOperator}, 403},
		"an operator follows everyone":        {call{method: "GET", path: "/api/v1/events?scope=platform", token: tokenOperator}, 200},
		"a tenant does not":                   {call{method: "GET", path: "/api/v1/events?scope=platform", token: tokenOwner}, 403},
		"a member follows the project":        {call{method: "GET", path: "/api/v1/events", token: tokenMember}, 200},
		"who is in none follows nothing":      {call{method: "GET", path: "/api/v1/events", token: tokenStranger}, 403},
		"a foreign project is not there":      {call{method: "GET", path: allocations, token: tokenOwner, header: map[string]string{"X-Project-ID": theirProject.String()}}, 404},
		"an operator lists without a project": {call{method: "GET", path: allocations, token: tokenOperator}, 200},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			if w := b.do(t, c.call); w.Code != c.want {
				t.Errorf("got %d, want %d: %s", w.Code, c.want, w.Body)
			}
		})
	}
}

// A member of one project reaches nothing of another, though both are the
// tenant's, and cannot distinguish it from what does not exist.
func TestProjectsHaveABorder(t *testing.T) {
	t.Parallel()

	b := setup(t)
	a := b.allocate(t)
	other := b.addProject("other")
	b.sql(`INSERT INTO project_memberships (project_id, user_id, role) VALUES ($1, $2, 'member')`, other, users[tokenMember])
	elsewhere := map[string]string{"X-Project-ID": other.String()}
	for _, c := range []call{
		{method: "GET", path: allocations + "/" + a.Id.String()},
		{method: "GET", path: allocations + "/" + a.Id.String() + "/timeline"},
		{method: "POST", path: allocations + "/" + a.Id.String() + "/release"},
	} {
		c.token, c.header = tokenMember, elsewhere
		beyond := b.do(t, c)
		c.path = strings.Replace(c.path, a.Id.String(), ids.New[ids.Allocation]().String(), 1)
		if missing := b.do(t, c); beyond.Code != 404 || problem(t, beyond).Message != problem(t, missing).Message {
			t.Errorf("%s %s: %d %s", c.method, c.path, beyond.Code, beyond.Body)
		}
	}
	if released := read[int](b, `SELECT count(*) FROM allocations WHERE status <> 'requested'`); released != 0 {
		t.Error("it was released from outside its project")
	}
}

// Without a named project, a stream has the events of all projects in which the caller has a role, and of the tenant's
// money for users of the billing.
func TestStreamOfSeveralProjects(t *testing.T) {
	t.Parallel()

	b := setup(t)
	second, foreign := b.addProject("second"), b.addProject("third")
	b.sql(`INSERT INTO project_memberships (project_id, user_id, role) VALUES ($1, $2, 'viewer')`, second, users[tokenMember])
	b.sql(`UPDATE tenant_memberships SET role = 'billing' WHERE user_id = $1`, users[tokenStranger])
	write := func(stream, subject string, of ids.Tenant, in ids.Project) {
		b.sql(`INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, org_id, project_id, payload)
			VALUES ($1, $2, $3, 'x', 1, $4, nullif($5::uuid, '00000000-0000-0000-0000-000000000000'), '{}')`, ids.New[ids.Event]().UUID, stream, subject, of.UUID, in.UUID)
	}
	write(event.StreamProvisioning, "provisioning.third", tenant, foreign)
	write(event.StreamProvisioning, "provisioning.theirs", theirs, theirProject)
	write(event.StreamBilling, "billing.theirs", theirs, ids.Project{})
	write(event.StreamFleet, "fleet.tenant", tenant, ids.Project{})
	write(event.StreamBilling, "billing.tenant", tenant, ids.Project{})
	write(event.StreamProvisioning, "provisioning.first", tenant, project)
	write(event.StreamProvisioning, "provisioning.second", tenant, second)
	for name, c := range map[string]struct {
		token, named string
		want         string
	}{
		"a member of two":            {tokenMember, "", "provisioning.first provisioning.second"},
		"a member who names one":     {tokenMember, second.String(), "provisioning.second"},
		"a billing user without one": {tokenStranger, "", "billing.tenant"},
		"an owner":                   {tokenOwner, "", "provisioning.third fleet.tenant billing.tenant provisioning.first provisioning.second"},
	} {
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/events?since=0", nil)
		req.Header.Set("Authorization", "Bearer "+c.token)
		if c.named != "" {
			req.Header.Set("X-Project-ID", c.named)
		}
		w := httptest.NewRecorder()
		// The events have one sequence, and one flush has all stored ones. The number of unread notifications has its own.
		last := "event: " + c.want[strings.LastIndex(c.want, " ")+1:] + "\n"
		b.handler.ServeHTTP(flushedOnce{w, func() {
			if strings.Contains(w.Body.String(), last) {
				end()
			}
		}}, req)
		end()
		var got []string
		for line := range strings.Lines(w.Body.String()) {
			if subject, found := strings.CutPrefix(strings.TrimSpace(line), "event: "); found && subject != "unread" {
				got = append(got, subject)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %d %v, want %s", name, w.Code, got, c.want)
		}
	}
	if w := b.do(t, call{method: "GET", path: "/api/v1/events", token: tokenMember, header: map[string]string{"X-Project-ID": foreign.String()}}); w.Code != 403 {
		t.Errorf("a project of others: %d", w.Code)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()

	b := setup(t, func(_ *fixture, c *rest.Config) {
		c.Limits = func(class request.Class, _ identity.Caller) middleware.Limit {
			if class == request.ClassTenant {
				return middleware.Limit{PerMinute: 60, Burst: 100}
			}
			return middleware.Limit{PerMinute: 60, Burst: 3}
		}
	})
	get := call{method: "GET", path: "/api/v1/skus", token: tokenOwner}
	for i := range 3 {
		w := b.do(t, get)
		if w.Code != 200 || w.Header().Get("X-RateLimit-Remaining") != fmt.Sprint(2-i) || w.Header().Get("X-RateLimit-Limit") != "3" ||
			w.Header().Get("RateLimit-Policy") != `"read";q=3;w=3` || w.Header().Get("RateLimit") != fmt.Sprintf(`"read";r=%d;t=%d`, 2-i, i+1) {
			t.Errorf("request %d: %d %v", i, w.Code, w.Header())
		}
	}
	w := b.do(t, get)
	if w.Code != 429 || problem(t, w).Code != "rate_limited" || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := b.do(t, call{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h100-sxm"}`}); w.Code != 201 {
		t.Errorf("reads used up what may be written: %d %s", w.Code, w.Body)
	}
	if w := b.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenMember}); w.Code != 200 {
		t.Errorf("another actor pays: %d", w.Code)
	}
	b.now = b.now.Add(time.Second)
	if w := b.do(t, get); w.Code != 200 {
		t.Errorf("after the wait: %d", w.Code)
	}
	for range 3 {
		b.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenUnknown})
	}
	if w := b.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenUnknown}); w.Code != 429 {
		t.Errorf("tokens may be guessed at any speed: %d", w.Code)
	}
	if w := b.do(t, call{method: "GET", path: "/api/v1/healthz"}); w.Code != 200 {
		t.Errorf("a monitor is rejected: %d", w.Code)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()

	b := setup(t)
	create := func(key, body string) (int, string, string) {
		w := b.do(t, call{method: "POST", path: allocations, token: tokenOwner, body: body, header: map[string]string{"X-Idempotency-Key": key}})
		return w.Code, w.Body.String(), w.Header().Get("Idempotency-Replayed")
	}
	const body = `{"sku":"h100-sxm","name":"otter"}`
	_, first, _ := create("k1", body)
	code, again, replayed := create("k1", body)
	if made := b.count("allocations"); code != 201 || again != first || replayed != "true" || made != 1 {
		t.Errorf("%d, made %d\n%s\n%s", code, made, first, again)
	}
	b.sql(`UPDATE slots SET held_until = 'infinity'`)
	another := setupOn(t, b.db) // which has not stored the key, and finds no free slot
	w := another.do(t, call{method: "POST", path: allocations, token: tokenOwner, body: body, header: map[string]string{"X-Idempotency-Key": "k1"}})
	if w.Code != 201 || w.Body.String() != first {
		t.Errorf("the first response is not returned again: %d %s", w.Code, w.Body)
	}
	b.sql(`UPDATE slots SET held_until = NULL`)
	if code, text, _ := create("k1", `{"sku":"h100-sxm"}`); code != 422 || !strings.Contains(text, "idempotency_key_reused") {
		t.Errorf("%d %s", code, text)
	}
	if code, _, _ := create("k2", `{"sku":"h100-sxm","name":"second"}`); code != 201 || b.count("allocations") != 2 {
		t.Errorf("another key: %d, made %d", code, b.count("allocations"))
	}
	if code, _, _ := create(strings.Repeat("k", 300), body); code != 400 {
		t.Errorf("a key of 300 characters: %d", code)
	}
	draft := map[string]string{"Idempotency-Key": `"k1"`}
	if w := b.do(t, call{method: "POST", path: allocations, token: tokenOwner, body: body, header: draft}); w.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("the draft's name and quotes: %d %s", w.Code, w.Body)
	}
}

func TestReleaseIsReplayed(t *testing.T) {
	t.Parallel()

	b := setup(t)
	release := call{method: "POST", path: allocations + "/" + b.allocate(t).Id.String() + "/release", token: tokenOwner, header: map[string]string{"X-Idempotency-Key": "r1"}}
	first, again := b.do(t, release), b.do(t, release)
	if first.Code != 202 || again.Code != 202 || first.Body.String() != again.Body.String() || read[int](b, `SELECT count(*) FROM audit_logs WHERE action = 'allocation.release'`) != 1 {
		t.Errorf("%d %s\n%d %s", first.Code, first.Body, again.Code, again.Body)
	}
	other := release
	other.path = allocations + "/" + b.allocate(t).Id.String() + "/release"
	if w := b.do(t, other); w.Code != 422 || problem(t, w).Code != "idempotency_key_reused" {
		t.Errorf("the key of one allocation answers for another: %d %s", w.Code, w.Body)
	}
	release.header = nil
	if w := b.do(t, release); w.Code != 409 || problem(t, w).Code != "allocation_already_releasing" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestCursors(t *testing.T) {
	t.Parallel()

	b := setup(t)
	first, second := b.allocate(t), b.allocate(t)
	w := b.do(t, call{method: "GET", path: allocations + "?limit=1", token: tokenOwner})
	link := w.Header().Get("Link")
	next := strings.TrimPrefix(strings.Split(link, ">")[0], "<")
	if w.Code != 200 || !strings.Contains(link, `rel="next"`) || !strings.Contains(next, "limit=1") {
		t.Fatalf("%d %s %s", w.Code, link, w.Body)
	}
	if w := b.do(t, call{method: "GET", path: next, token: tokenOwner}); w.Code != 200 || strings.Contains(w.Body.String(), first.Id.String()) == strings.Contains(w.Body.String(), second.Id.String()) || w.Header().Get("Link") != "" {
		t.Errorf("second page: %d %s", w.Code, w.Body)
	}
	_, cursor, _ := strings.Cut(next, "cursor=")
	cursor, _, _ = strings.Cut(cursor, "&")
	forged := []byte(cursor)
	forged[len(forged)/2] ^= 'A' ^ 'B'
	for what, path := range map[string]string{
		"forged":       allocations + "?cursor=" + url.QueryEscape(string(forged)),
		"cut":          allocations + "?cursor=" + cursor[:8],
		"another list": "/api/v1/ssh-keys?cursor=" + cursor,
		"other filter": allocations + "?sku=h100-sxm&cursor=" + cursor,
		"not a cursor": allocations + "?cursor=%21",
	} {
		if w := b.do(t, call{method: "GET", path: path, token: tokenOwner}); w.Code != 400 || problem(t, w).Code != "cursor_invalid" {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
	b.now = b.now.Add(25 * time.Hour)
	if w := b.do(t, call{method: "GET", path: next, token: tokenOwner}); w.Code != 400 {
		t.Errorf("a day later: %d", w.Code)
	}
}

func TestUnchangedAllocationsAreNotSentAgain(t *testing.T) {
	t.Parallel()

	b := setup(t)
	path := allocations + "/" + b.allocate(t).Id.String()
	w := b.do(t, call{method: "GET", path: path, token: tokenOwner})
	tag := w.Header().Get("ETag")
	if w := b.do(t, call{method: "GET", path: path, token: tokenOwner, header: map[string]string{"If-None-Match": tag}}); w.Code != 304 || w.Body.Len() != 0 || w.Header().Get("ETag") != tag {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	b.do(t, call{method: "POST", path: path + "/release", token: tokenOwner})
	if w := b.do(t, call{method: "GET", path: path, token: tokenOwner, header: map[string]string{"If-None-Match": tag}}); w.Code != 200 {
		t.Errorf("after a change: %d", w.Code)
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()

	b := setup(t)
	large := `{"sku":"` + strings.Repeat("x", 1<<20) + `"}`
	if w := b.do(t, call{method: "POST", path: allocations, token: tokenOwner, body: large}); w.Code != 413 || problem(t, w).Code != "body_too_large" {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	if w := b.do(t, call{method: "POST", path: allocations, token: tokenOwner, body: "sku=h100-sxm", header: form}); w.Code != 415 || problem(t, w).Code != "media_type_unsupported" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	charset := map[string]string{"Content-Type": "application/json; charset=utf-8"}
	if w := b.do(t, call{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h100-sxm"}`, header: charset}); w.Code != 201 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestTokensAreRejectedInURLs(t *testing.T) {
	t.Parallel()

	w := setup(t).do(t, call{method: "GET", path: "/api/v1/skus?access_token=gpk_x", token: tokenOwner})
	if w.Code != 401 || problem(t, w).Code != "token_in_url" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()

	state := rest.Degraded
	b := setup(t, func(_ *fixture, c *rest.Config) {
		c.Checks = append(c.Checks, rest.Check{Name: "fleet", Check: func(context.Context) (rest.Status, string) { return state, "1 of 3 nodes is silent" }})
		c.Ready = func(context.Context) error { return errors.New("no route") }
	})
	w := b.do(t, call{method: "GET", path: "/api/v1/healthz"})
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"status":"degraded"`) || !strings.Contains(w.Body.String(), t0.Format(time.RFC3339)) {
		t.Errorf("degraded: %d %s", w.Code, w.Body)
	}
	if strings.Contains(w.Body.String(), "silent") {
		t.Errorf("an anonymous caller reads a message: %s", w.Body)
	}
	if w := b.do(t, call{method: "GET", path: "/api/v1/admin/health", token: tokenOperator}); w.Code != 200 || !strings.Contains(w.Body.String(), "1 of 3 nodes is silent") {
		t.Errorf("details for an operator: %d %s", w.Code, w.Body)
	}
	if w := b.do(t, call{method: "GET", path: "/api/v1/admin/health", token: tokenOwner}); w.Code != http.StatusForbidden {
		t.Errorf("details for the owner of a tenant: %d %s", w.Code, w.Body)
	}
	b.now, state = b.now.Add(time.Minute), rest.Down
	w = b.do(t, call{method: "GET", path: "/api/v1/healthz"})
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), t0.Add(time.Minute).Format(time.RFC3339)) {
		t.Errorf("down: %d %s", w.Code, w.Body)
	}
	if w := b.do(t, call{method: "GET", path: "/readyz"}); w.Code != 503 || problem(t, w).Code != "unavailable" {
		t.Errorf("readyz: %d %s", w.Code, w.Body)
	}
	if w := b.do(t, call{method: "GET", path: "/livez"}); w.Code != 200 {
		t.Errorf("livez: %d", w.Code)
	}
}
