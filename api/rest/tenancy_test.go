package rest_test

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/policies"
)

// Each resource with versions: its path, a change of it, and a token that may change it.
func (b *fixture) versioned(t *testing.T) map[string]struct{ path, patch, token string } {
	t.Helper()
	account, _ := b.program(t)
	return map[string]struct{ path, patch, token string }{
		"tenant":          {"/api/v1/tenant", `{"name":"vision-lab"}`, tokenOwner},
		"project":         {"/api/v1/projects/" + b.make(t, "/api/v1/projects", `{"name":"vision"}`), `{"description":"b"}`, tokenOwner},
		"service account": {"/api/v1/service-accounts/" + account, `{"description":"b"}`, tokenOwner},
		"user":            {"/api/v1/admin/users/" + b.addUser(ids.Project{}).String(), `{"name":"B"}`, tokenAdmin},
	}
}

func TestUnchangedObjectsAreNotSentAgain(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for what, v := range b.versioned(t) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			get := func(tag string) *httptest.ResponseRecorder {
				return b.do(t, call{method: "GET", path: v.path, token: v.token, header: map[string]string{"If-None-Match": tag}})
			}
			for _, tag := range []string{`"1"`, `W/"1"`, `"7", "1"`, "*"} {
				if w := get(tag); w.Code != 304 || w.Body.Len() != 0 || w.Header().Get("ETag") != `"1"` {
					t.Errorf("If-None-Match %s: %d %v %s", tag, w.Code, w.Header(), w.Body)
				}
			}
			for _, tag := range []string{`"2"`, "1", ""} {
				if w := get(tag); w.Code != 200 || w.Header().Get("ETag") != `"1"` {
					t.Errorf("If-None-Match %s: %d %v", tag, w.Code, w.Header())
				}
			}
		})
	}
}

// An update names the version that it replaces; what another user has
// changed meanwhile is not overwritten.
func TestChangesSayWhatTheyChange(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for what, v := range b.versioned(t) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			patch := func(tag string) *httptest.ResponseRecorder {
				a := call{method: "PATCH", path: v.path, token: v.token, body: v.patch}
				if tag != "" {
					a.header = map[string]string{"If-Match": tag}
				}
				return b.do(t, a)
			}
			if w := patch(""); w.Code != http.StatusPreconditionRequired || problem(t, w).Code != "version_required" {
				t.Errorf("without If-Match: %d %s", w.Code, w.Body)
			}
			for _, tag := range []string{`"2"`, `W/"1"`, `"+1"`, `"one"`, `"0"`, `"-1"`} {
				if w := patch(tag); w.Code != http.StatusPreconditionFailed || problem(t, w).Code != "version_mismatch" {
					t.Errorf("If-Match %s: %d %s", tag, w.Code, w.Body)
				}
			}
			if w := patch(`"1"`); w.Code != 200 || w.Header().Get("ETag") != `"2"` || w.Header().Get("Location") != "" {
				t.Errorf("the copy that is there: %d %v %s", w.Code, w.Header(), w.Body)
			}
			if w := patch(`"1"`); w.Code != http.StatusPreconditionFailed {
				t.Errorf("the copy that was there: %d %s", w.Code, w.Body)
			}
			v.patch = strings.Replace(v.patch, `"}`, `-2"}`, 1)
			if w := patch("*"); w.Code != 200 || w.Header().Get("ETag") != `"3"` {
				t.Errorf("whatever is there: %d %v %s", w.Code, w.Header(), w.Body)
			}
		})
	}
}

// A deletion may name the version that it deletes, and need not.
func TestDeletionsMayNameTheirVersion(t *testing.T) {
	t.Parallel()

	b := setup(t)
	account, _ := b.program(t)
	other, _ := b.program(t)
	for what, paths := range map[string][2]string{
		"project":         {"/api/v1/projects/" + b.make(t, "/api/v1/projects", `{"name":"a"}`), "/api/v1/projects/" + b.make(t, "/api/v1/projects", `{"name":"b"}`)},
		"service account": {"/api/v1/service-accounts/" + account, "/api/v1/service-accounts/" + other},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			del := func(path string, header map[string]string) *httptest.ResponseRecorder {
				return b.do(t, call{method: "DELETE", path: path, token: tokenOwner, header: header})
			}
			if w := del(paths[0], map[string]string{"If-Match": `"7"`}); w.Code != http.StatusPreconditionFailed {
				t.Errorf("another version: %d %s", w.Code, w.Body)
			}
			if w := del(paths[0], map[string]string{"If-Match": `"1"`}); w.Code != 204 || w.Body.Len() != 0 {
				t.Errorf("the version that is there: %d %s", w.Code, w.Body)
			}
			if w := del(paths[1], nil); w.Code != 204 {
				t.Errorf("any version: %d %s", w.Code, w.Body)
			}
			if w := del(paths[1], nil); w.Code != 404 {
				t.Errorf("again: %d %s", w.Code, w.Body)
			}
		})
	}
}

// A created resource is found at its Location, and one with versions has its ETag.
func TestCreatedResourcesAreAtTheirLocation(t *testing.T) {
	t.Parallel()

	b := setup(t)
	project := "/api/v1/projects/" + project.String()
	account, _ := b.program(t)
	for path, c := range map[string]struct {
		body, tag string
		unread    bool // there is no call that reads one
	}{
		"/api/v1/projects":                                     {body: `{"name":"made"}`, tag: `"1"`},
		project + "/service-accounts":                          {body: `{"name":"made","scopes":["billing:read"]}`, tag: `"1"`},
		"/api/v1/admin/users":                                  {body: `{"email":"made@dev.localhost","name":"Made"}`, tag: `"1"`},
		"/api/v1/admin/tenants":                                {body: `{"name":"made"}`, tag: `"1"`},
		"/api/v1/api-keys":                                     {body: `{"name":"made"}`, unread: true},
		"/api/v1/tenant/invitations":                           {body: `{"email":"made@dev.localhost","role":"viewer"}`, unread: true},
		"/api/v1/service-accounts/" + account + "/credentials": {unread: true},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			token := tokenOwner
			if strings.Contains(path, "/admin/") {
				token = tokenAdmin
			}
			w := b.do(t, call{method: "POST", path: path, token: token, body: c.body})
			at := w.Header().Get("Location")
			var made struct{ ID string }
			if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != 201 || w.Header().Get("ETag") != c.tag || !strings.HasSuffix(at, made.ID) {
				t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
			}
			if c.unread {
				if w := b.do(t, call{method: "DELETE", path: at, token: token}); w.Code != 204 {
					t.Errorf("DELETE %s: %d %s", at, w.Code, w.Body)
				}
				return
			}
			if w := b.do(t, call{method: "GET", path: at, token: token}); w.Code != 200 || w.Header().Get("ETag") != c.tag {
				t.Errorf("GET %s: %d %s", at, w.Code, w.Body)
			}
		})
	}
}

// A request whose response was lost can be repeated, and returns the secret that was not delivered. Only these
// responses are not stored in clear.
func TestLostSecretsAreReturnedAgain(t *testing.T) {
	t.Parallel()

	b := setup(t)
	account, _ := b.program(t)
	for what, path := range map[string]string{"API key": "/api/v1/api-keys", "credential": "/api/v1/service-accounts/" + account + "/credentials"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a := call{method: "POST", path: path, token: tokenOwner, header: map[string]string{"X-Idempotency-Key": "once-" + what[:3]}}
			if what == "API key" {
				a.body = `{"name":"ci"}`
			}
			first, again := b.do(t, a), b.do(t, a)
			if first.Code != 201 || !strings.Contains(first.Body.String(), `"secret":"gp`) {
				t.Fatalf("%d %s", first.Code, first.Body)
			}
			if again.Code != 201 || again.Body.String() != first.Body.String() || again.Header().Get("Idempotency-Replayed") != "true" ||
				again.Header().Get("Location") != first.Header().Get("Location") {
				t.Errorf("%d %v %s", again.Code, again.Header(), again.Body)
			}
			if list := b.do(t, call{method: "GET", path: path, token: tokenOwner}); list.Code != 200 || strings.Contains(list.Body.String(), "secret") {
				t.Errorf("the list shows it, too: %d %s", list.Code, list.Body)
			}
		})
	}
	t.Cleanup(func() {
		if open := read[int](b, `SELECT count(*) FROM idempotency_keys WHERE position('"secret"'::bytea IN body) > 0 OR NOT encrypted`); open != 0 {
			t.Errorf("%d responses with a secret are stored in clear", open)
		}
	})
}

// A secret is repeated only for a caller who still has the right. For what is gone, or
// no longer visible, the right cannot be checked.
func TestSecretsOfWhatIsGoneAreNotSaidAgain(t *testing.T) {
	t.Parallel()

	b := setup(t)
	account, _ := b.program(t)
	at := "/api/v1/service-accounts/" + account
	a := call{method: "POST", path: at + "/credentials", token: tokenOwner, header: map[string]string{"X-Idempotency-Key": "once"}}
	if w := b.do(t, a); w.Code != 201 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	gone := call{method: "DELETE", path: at, token: tokenOwner, header: map[string]string{"X-Idempotency-Key": "gone"}}
	for range 2 {
		if w := b.do(t, gone); w.Code != 204 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if w := b.do(t, a); w.Code != 404 || strings.Contains(w.Body.String(), "gps_") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Every kind of change, sent twice with one key: one effect, one response.
func TestChangesAreReplayed(t *testing.T) {
	t.Parallel()

	b := setup(t)
	account, credential := b.program(t)
	project := b.make(t, "/api/v1/projects", `{"name":"twice"}`)
	user := b.addUser(ids.Project{}).String()
	whatever := map[string]string{"If-Match": "*"}
	for _, a := range []call{
		{method: "PATCH", path: "/api/v1/users/me", body: `{"name":"Dev"}`, header: whatever},
		{method: "PATCH", path: "/api/v1/tenant", body: `{"name":"twice"}`, header: whatever},
		{method: "PUT", path: "/api/v1/tenant/members/" + user, body: `{"role":"billing"}`},
		{method: "PUT", path: "/api/v1/projects/" + project + "/members/" + user, body: `{"role":"viewer"}`},
		{method: "DELETE", path: "/api/v1/projects/" + project + "/members/" + user},
		{method: "DELETE", path: "/api/v1/tenant/members/" + user},
		{method: "POST", path: "/api/v1/tenant/invitations", body: `{"email":"twice@dev.localhost","role":"member"}`},
		{method: "POST", path: "/api/v1/projects", body: `{"name":"thrice"}`},
		{method: "PATCH", path: "/api/v1/projects/" + project, body: `{"name":"renamed"}`, header: whatever},
		{method: "POST", path: "/api/v1/projects/" + project + "/service-accounts", body: `{"name":"twice","scopes":["billing:read"]}`},
		{method: "DELETE", path: "/api/v1/projects/" + project},
		{method: "PATCH", path: "/api/v1/service-accounts/" + account, body: `{"disabled":true}`, header: whatever},
		{method: "DELETE", path: "/api/v1/service-accounts/" + account + "/credentials/" + credential},
		{method: "DELETE", path: "/api/v1/service-accounts/" + account},
		{method: "DELETE", path: "/api/v1/auth/sessions/" + b.session(tokenOwner)},
		{method: "POST", path: "/api/v1/admin/users", token: tokenAdmin, body: `{"email":"twice@dev.localhost","name":"Twice"}`},
		{method: "PATCH", path: "/api/v1/admin/users/" + user, token: tokenAdmin, body: `{"role":"operator"}`, header: whatever},
		{method: "POST", path: "/api/v1/admin/tenants", token: tokenAdmin, body: `{"name":"thrice"}`},
		{method: "PUT", path: "/api/v1/admin/tenants/" + tenant.String() + "/members/" + user, token: tokenAdmin, body: `{"role":"member"}`},
		{method: "DELETE", path: "/api/v1/admin/sessions/" + b.session(tokenOwner), token: tokenAdmin},
	} {
		if a.token == "" {
			a.token = tokenOwner
		}
		header := map[string]string{"X-Idempotency-Key": ids.New[ids.Task]().String()}
		maps.Copy(header, a.header)
		a.header = header
		before := b.count("audit_logs")
		first, again := b.do(t, a), b.do(t, a)
		if first.Code/100 != 2 || again.Code != first.Code || again.Body.String() != first.Body.String() || b.count("audit_logs") != before+1 ||
			again.Header().Get("ETag") != first.Header().Get("ETag") || again.Header().Get("Location") != first.Header().Get("Location") ||
			first.Header().Get("Idempotency-Replayed") != "" || again.Header().Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s %s: %d effects\n%d %v %s\n%d %v %s", a.method, a.path, b.count("audit_logs")-before,
				first.Code, first.Header(), first.Body, again.Code, again.Header(), again.Body)
		}
	}
}

// A place in one list is no place in another, also when both are of one kind.
func TestCursorsAreOfOneList(t *testing.T) {
	t.Parallel()

	b := setup(t)
	one, two := b.make(t, "/api/v1/projects", `{"name":"one"}`), b.make(t, "/api/v1/projects", `{"name":"two"}`)
	for _, p := range []string{one, two} {
		for range 3 {
			b.addUser(ids.From[ids.Project](uuid.MustParse(p)))
		}
	}
	list := func(path string) (*httptest.ResponseRecorder, []string, string) {
		w := b.do(t, call{method: "GET", path: path, token: tokenOwner})
		var l struct {
			Items []struct {
				UserID string `json:"user_id"`
			}
			Next string `json:"next_cursor"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		var seen []string
		for _, i := range l.Items {
			seen = append(seen, i.UserID)
		}
		return w, seen, l.Next
	}
	members := "/api/v1/projects/" + one + "/members?limit=2"
	b.sql(`DELETE FROM project_memberships WHERE user_id = $1`, users[tokenOwner])
	_, first, next := list(members)
	w, rest, last := list(members + "&cursor=" + next)
	if len(first) != 2 || len(rest) != 1 || last != "" || w.Header().Get("Link") != "" || first[1] >= rest[0] {
		t.Errorf("%v, then %v", first, rest)
	}
	for _, path := range []string{
		"/api/v1/projects/" + two + "/members?cursor=" + next,
		"/api/v1/tenant/members?cursor=" + next,
	} {
		if w, _, _ := list(path); w.Code != 400 || problem(t, w).Code != "cursor_invalid" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestWhoIsOfNoTenantSeesNoTenantsAudit(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for _, path := range []string{"/api/v1/audit-logs", "/api/v1/audit-logs/export"} {
		if w := b.do(t, call{method: "GET", path: path, token: tokenAlone}); w.Code != 404 || problem(t, w).Code != "not_found" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	b.record(tenant, 1, "user:1", "x")
	b.record(theirs, 1, "user:1", "x")
	filter := "?actor=user:1&action=project.&target=x&from=" + t0.Add(-time.Hour).Format(time.RFC3339) + "&to=" + t0.Add(time.Hour).Format(time.RFC3339)
	for path, c := range map[string]struct {
		token string
		want  int
	}{
		"/api/v1/audit-logs" + filter:                                                       {tokenOwner, 1},
		"/api/v1/admin/audit-logs" + filter:                                                 {tokenAdmin, 2},
		"/api/v1/audit-logs" + strings.Replace(filter, "r:1", "r:2", 1):                     {tokenOwner, 0},
		"/api/v1/audit-logs" + strings.Replace(filter, "project.", "node.", 1):              {tokenOwner, 0},
		"/api/v1/audit-logs" + strings.Replace(filter, "target=x", "target=y", 1):           {tokenOwner, 0},
		"/api/v1/audit-logs?action=project.&from=" + t0.Add(time.Hour).Format(time.RFC3339): {tokenOwner, 0},
		"/api/v1/audit-logs?action=project.&to=" + t0.Add(-time.Hour).Format(time.RFC3339):  {tokenOwner, 0},
	} {
		var list struct{ Items []struct{ ID string } }
		w := b.do(t, call{method: "GET", path: path, token: c.token})
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 || len(list.Items) != c.want {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, c.want)
		}
	}
}

// record writes audit rows, the newest of which is of t0.
func (b *fixture) record(of ids.Tenant, n int, actor, target string) {
	b.Helper()
	b.sql(`INSERT INTO audit_logs (id, at, org_id, actor, action, target_urn, correlation_id, after)
		SELECT gen_random_uuid(), $1::timestamptz - i * interval '1 millisecond', $2, $3, 'project.create', $4, 'c-1', '{"name": "vision"}'
		FROM generate_series(0, $5::int - 1) AS i`, t0, of, actor, target, n)
}

const export = "/api/v1/audit-logs/export"

func TestAuditIsExportedWhole(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.record(tenant, 2500, "user:1", "gpuaas:project:1")
	w := b.do(t, call{method: "GET", path: export, token: tokenOwner})
	lines, err := csv.NewReader(w.Body).ReadAll()
	if err != nil || w.Code != 200 || len(lines) != 2501 {
		t.Fatalf("%d, %d lines, %v", w.Code, len(lines), err)
	}
	if head := strings.Join(lines[0], " "); head != "id occurred_at tenant_id actor action target correlation_id before after client_address user_agent" {
		t.Errorf("head: %s", head)
	}
	want := []string{t0.Format(time.RFC3339), tenant.String(), "user:1", "project.create", "gpuaas:project:1", "c-1", "", `{"name": "vision"}`, "", ""}
	if got := lines[1][1:]; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %v", got)
	}
	h := w.Header()
	if !strings.HasPrefix(h.Get("Content-Type"), "text/csv") || !strings.Contains(h.Get("Content-Disposition"), "attachment") || h.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", h)
	}
	if !w.Flushed {
		t.Error("a long export sends nothing before its end")
	}
}

// A spreadsheet that opens the file runs no text of a tenant as a formula.
func TestExportsHoldNoFormulas(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for _, text := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "plain", "a=b", ""} {
		b.record(tenant, 1, text, text)
	}
	w := b.do(t, call{method: "GET", path: export, token: tokenOwner})
	lines, err := csv.NewReader(w.Body).ReadAll()
	if err != nil || len(lines) != 11 {
		t.Fatalf("%v, %v", lines, err)
	}
	kept := false
	for _, line := range lines[1:] {
		for _, cell := range line {
			if cell != "" && strings.ContainsRune("=+-@\t\r\n", rune(cell[0])) {
				t.Errorf("%q is a formula", cell)
			}
		}
		kept = kept || line[3] == "a=b"
	}
	if !kept {
		t.Error("what is no formula was changed")
	}
}

// A stream that breaks has no end mark, so that a client notices the missing part.
func TestBrokenExportsAreCut(t *testing.T) {
	t.Parallel()

	b := setup(t, ticking)
	b.record(tenant, 3000, "user:1", "x")
	b.database.fail("FROM audit_logs", 3, &pgconn.PgError{Code: "57P01"}) // between two pages of rows
	live := httptest.NewUnstartedServer(b.handler)
	live.Config = b.server.HTTPServer()
	live.Start()
	defer live.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, live.URL+export, nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+tokenOwner)
	res, err := live.Client().Do(req)
	if err != nil { // cut before the first byte
		return
	}
	defer func() { _ = res.Body.Close() }()
	if text, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("%d: %d bytes and an end", res.StatusCode, len(text))
	}
}

// What is wrong before the first row is an ordinary answer.
func TestExportsThatCannotBeginSaySo(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.database.fail("FROM audit_logs", 0, &pgconn.PgError{Code: "57P01"})
	if w := b.do(t, call{method: "GET", path: export, token: tokenOwner}); w.Code != 503 || problem(t, w).Code != "unavailable" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestRolesDecideAboutTenancy(t *testing.T) {
	t.Parallel()

	b := setup(t)
	user := users[tokenMember].String()
	for rule, c := range map[string]struct {
		call
		want int
	}{
		"an owner reads the audit log":         {call{method: "GET", path: "/api/v1/audit-logs", token: tokenOwner}, 200},
		"a member does not":                    {call{method: "GET", path: "/api/v1/audit-logs", token: tokenMember}, 403},
		"nor an operator":                      {call{method: "GET", path: "/api/v1/admin/audit-logs", token: tokenOperator}, 403},
		"a member makes a project":             {call{method: "POST", path: "/api/v1/projects", token: tokenMember, body: `{"name":"mine"}`}, 201},
		"a member cannot invite":               {call{method: "POST", path: "/api/v1/tenant/invitations", token: tokenMember, body: `{"email":"a@b.test","role":"owner"}`}, 403},
		"a member gives no roles":              {call{method: "PUT", path: "/api/v1/tenant/members/" + user, token: tokenMember, body: `{"role":"owner"}`}, 403},
		"a member sees the tenant":             {call{method: "GET", path: "/api/v1/tenant", token: tokenMember}, 200},
		"an operator reads users":              {call{method: "GET", path: "/api/v1/admin/users/" + user, token: tokenOperator}, 200},
		"and makes none":                       {call{method: "POST", path: "/api/v1/admin/users", token: tokenOperator, body: `{"email":"a@b.test","name":"A"}`}, 403},
		"and cannot change a role":             {call{method: "PATCH", path: "/api/v1/admin/users/" + user, token: tokenOperator, body: `{"role":"admin"}`, header: map[string]string{"If-Match": "*"}}, 403},
		"an owner makes no tenant":             {call{method: "POST", path: "/api/v1/admin/tenants", token: tokenOwner, body: `{"name":"mine"}`}, 403},
		"a session of another user":            {call{method: "DELETE", path: "/api/v1/auth/sessions/" + b.session(tokenMember), token: tokenOwner}, 404},
		"but an admin":                         {call{method: "DELETE", path: "/api/v1/admin/sessions/" + b.session(tokenMember), token: tokenAdmin}, 204},
		"a role in a tenant needs a tenant":    {call{method: "POST", path: "/api/v1/admin/users", token: tokenAdmin, body: `{"email":"a@b.test","name":"A","tenant_role":"owner"}`}, 400},
		"roles are those of the contract":      {call{method: "PUT", path: "/api/v1/tenant/members/" + user, token: tokenOwner, body: `{"role":"admin"}`}, 400},
		"scopes are those of the contract":     {call{method: "POST", path: "/api/v1/api-keys", token: tokenOwner, body: `{"name":"a","scopes":["root"]}`}, 400},
		"a patch changes something":            {call{method: "PATCH", path: "/api/v1/projects/" + project.String(), token: tokenOwner, body: `{}`, header: map[string]string{"If-Match": "*"}}, 400},
		"names of projects are not used twice": {call{method: "POST", path: "/api/v1/projects", token: tokenOwner, body: `{"name":"default"}`}, 409},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			if w := b.do(t, c.call); w.Code != c.want {
				t.Errorf("got %d, want %d: %s", w.Code, c.want, w.Body)
			}
		})
	}
}

func TestAPIKeysCanBeSwitchedOff(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.policy(string(policies.AuthAPIKeysEnabled), policies.In(policies.LevelTenant, tenant.String()), "false")
	create := func(token string) *httptest.ResponseRecorder {
		asJSON := func(r *http.Request) {
			r.Header.Set("Content-Type", "application/json")
		}
		return b.visit(t, "POST", "/api/v1/api-keys", `{"name":"ci"}`, with(b.signIn(token)), asJSON)
	}
	if w := create(tokenMember); w.Code != 404 || problem(t, w).Code != "not_found" || !strings.Contains(w.Body.String(), "auth.api_keys_enabled") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := create(tokenTheirs); w.Code != 201 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// session starts a session of a user and returns its id.
func (b *fixture) session(token string) string {
	b.Helper()
	id, _ := b.start(token)
	return id.String()
}
