package rest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/policies"
)

const (
	objectPath = "/api/v1/admin/desired/Node/" + object
	plansPath  = "/api/v1/admin/plans"
)

// The spec is stored as it was sent, with its defaults, and the tag names the version that was changed.
func TestWhatIsDeclaredIsWhatWasSent(t *testing.T) {
	t.Parallel()

	const none = "/api/v1/admin/desired/Node/none"
	for what, c := range map[string]struct {
		path, tag string
		dry       bool
		status    int
	}{
		"a new one":                 {none, "", false, 201},
		"the next version":          {objectPath, `"1"`, false, 200},
		"any version":               {objectPath, "*", false, 200},
		"any version of nothing":    {none, "*", false, 404},
		"only tried":                {none + "?dry_run=true", "", true, 201},
		"a tag that is not of ours": {objectPath, `"four"`, false, 412},
		"another version":           {objectPath, `"4"`, false, 412},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			a := call{
				method: "PUT", path: c.path, token: tokenAdmin, header: map[string]string{"X-Idempotency-Key": "k"},
				body: `{"labels":{"a":"b"},"spec":{"sku":"` + sku + `","region":"` + region + `","gpus":4,"address":"10.0.0.7"}}`,
			}
			if c.tag != "" {
				a.header["If-Match"] = c.tag
			}
			w := b.do(t, a)
			if w.Code != c.status {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			path, _, _ := strings.Cut(c.path, "?")
			name := path[strings.LastIndex(path, "/")+1:]
			stored := read[int](b, `SELECT count(*) FROM desired_objects WHERE name = $1 AND labels->>'a' = 'b'
				AND spec @> '{"gpus":4,"address":"10.0.0.7","onboarding":"manual"}'`, name)
			if want := map[bool]int{true: 1, false: 0}[c.status < 300 && !c.dry]; stored != want {
				t.Errorf("%d objects are stored, want %d", stored, want)
			}
			if c.status >= 400 {
				return
			}
			if at := w.Header().Get("Location"); (at == path) != (c.status == 201) || w.Header().Get("ETag") == "" {
				t.Errorf("Location %q, ETag %q", at, w.Header().Get("ETag"))
			}
			if again := b.do(t, a); again.Code != w.Code || again.Header().Get("ETag") != w.Header().Get("ETag") || !c.dry && again.Body.String() != w.Body.String() {
				t.Errorf("the repetition: %d %s", again.Code, again.Body)
			}
		})
	}
}

// Faults that only the API can find are rejected before a service is called.
func TestChangesThatMeanNothing(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for what, c := range map[string]struct{ path, body, code, field string }{
		"suspended until a past time":                      {objectPath + "/suspend", `{"reason":"fans","until":"` + t0.Add(-time.Second).Format(time.RFC3339) + `"}`, "validation_error", "until"},
		"a source that is suspended until then":            {"/api/v1/admin/git-sources/fleet/suspend", `{"reason":"fans","until":"` + t0.Format(time.RFC3339) + `"}`, "validation_error", "until"},
		"a difference that is":                             {"/api/v1/admin/drift/" + driftID.String() + "/ignore", `{"reason":"visit","until":"` + t0.Format(time.RFC3339) + `"}`, "validation_error", "until"},
		"moved to Git, and nowhere there":                  {objectPath + "/adopt", `{"owner":"git"}`, "validation_error", "source"},
		"moved from Git into a source":                     {objectPath + "/adopt", `{"owner":"api","source":"fleet"}`, "validation_error", "source"},
		"a plan of no files":                               {plansPath, `{"files":{}}`, "validation_error", "files"},
		"a commit that is none":                            {plansPath, `{"commit":"--upload-pack=x","files":{"a":"b"}}`, "validation_error", "commit"},
		"a file of more than a mebibyte":                   {plansPath, `{"files":{"a":"` + strings.Repeat("x", 1<<20+1) + `"}}`, "validation_error", "files.a"},
		"a file with a character that no text may contain": {plansPath, `{"files":{"a":"\u0000"}}`, "validation_error", "files.a"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := b.do(t, call{method: "POST", path: c.path, token: tokenAdmin, body: c.body})
			if p := problem(t, w); w.Code != 400 || string(p.Code) != c.code || p.Details["field"] != c.field {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	if w := b.do(t, call{method: "DELETE", path: objectPath, token: tokenAdmin}); w.Code != http.StatusPreconditionRequired {
		t.Errorf("deleting any version: %d %s", w.Code, w.Body)
	}
	if n := b.count("audit_logs"); n != 0 {
		t.Errorf("%d changes were made", n)
	}
}

// A policy is compared with its key, so that nothing that is not a value of it becomes a declaration.
func TestValuesOfPolicies(t *testing.T) {
	t.Parallel()

	for what, c := range map[string]struct {
		key, body string
		status    int
		field     any
		value     string
	}{
		"for everybody":         {windowKey, `{"value":60}`, 200, nil, `60`},
		"for one tenant":        {"allocation.max_gpus", `{"value":4,"scope":"tenant:dev"}`, 200, nil, `4`},
		"beyond its bounds":     {windowKey, `{"value":1}`, 400, "value", ""},
		"of another type":       {windowKey, `{"value":"60"}`, 400, "value", ""},
		"neither whole nor not": {windowKey, `{"value":60.5}`, 400, "value", ""},
		"where it cannot be":    {windowKey, `{"value":60,"scope":"tenant:dev"}`, 400, "scope", ""},
		"of no scope":           {windowKey, `{"value":60,"scope":"planet:earth"}`, 400, "scope", ""},
		"not in force":          {"maas.enabled", `{"value":true}`, 422, "key", ""},
		"of no key":             {"billing.windows", `{"value":60}`, 404, nil, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			w := b.do(t, call{method: "PUT", path: "/api/v1/admin/policies/" + c.key, token: tokenAdmin, body: c.body})
			if w.Code != c.status {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if c.status == 200 {
				if n := read[int](b, `SELECT count(*) FROM desired_objects WHERE kind = 'Policy' AND spec::text LIKE '%"' || $1 || '"%' AND spec::text LIKE '%' || $2 || '%'`, c.key, c.value); n != 1 {
					t.Errorf("%d policies are declared", n)
				}
			} else if p := problem(t, w); p.Details["field"] != c.field {
				t.Errorf("%s", w.Body)
			}
		})
	}
}

// A value that another administrator has set meanwhile is not overwritten.
func TestPolicyIsSetOnlyIfAbsent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	set := func(header map[string]string) int {
		return b.do(t, call{method: "PUT", path: "/api/v1/admin/policies/" + windowKey, token: tokenAdmin, body: `{"value":60}`, header: header}).Code
	}
	absent := map[string]string{"If-None-Match": "*"}
	for i, c := range []struct {
		header map[string]string
		want   int
	}{
		{map[string]string{"If-None-Match": `"1"`}, 400},
		{map[string]string{"If-None-Match": "*", "If-Match": "*"}, 400},
		{absent, 200},
		{absent, 412},
		{nil, 200},
	} {
		if got := set(c.header); got != c.want {
			t.Errorf("%d: %v: %d", i, c.header, got)
		}
	}
}

// setWindow declares the one policy that is set.
func (b *fixture) setWindow(t *testing.T) {
	t.Helper()
	if res := b.do(t, call{method: "PUT", path: "/api/v1/admin/policies/" + windowKey, token: tokenAdmin, body: `{"value":60}`}); res.Code != 200 {
		t.Fatalf("%d %s", res.Code, res.Body)
	}
}

// Every key is on some page, in order, with its default and what is set.
func TestAllPoliciesAreListed(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.setWindow(t)
	found, cursor := []string{}, ""
	for range 100 {
		w := b.do(t, call{method: "GET", path: "/api/v1/admin/policies?limit=7" + cursor, token: tokenOperator})
		var page oapi.PolicyList
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		for _, k := range page.Items {
			found = append(found, k.Key)
			if text, err := k.Default.MarshalJSON(); err != nil || string(text) == "null" {
				t.Errorf("%s has the default %s", k.Key, text)
			}
			if set := k.Key == windowKey; (len(k.Set) == 1) != set {
				t.Errorf("%s is set to %v", k.Key, k.Set)
			}
		}
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if len(found) != len(policies.Keys()) {
		t.Errorf("listed %d of %d keys", len(found), len(policies.Keys()))
	}
	for i := 1; i < len(found); i++ {
		if found[i-1] >= found[i] {
			t.Errorf("%s is before %s", found[i-1], found[i])
		}
	}
}

// Filters of lists leave out what they do not name.
func TestListsAreFiltered(t *testing.T) {
	t.Parallel()

	b := setup(t)
	change := b.propose(t)
	b.sql(`UPDATE plans SET source = 'fleet' WHERE id = $1`, change)
	for path, want := range map[string][]string{
		plansPath: {planID.String(), change},
		plansPath + "?origin=change&source=fleet&status=proposed":   {change},
		plansPath + "?origin=change&source=other":                   {},
		plansPath + "?origin=change&status=applied":                 {},
		plansPath + "?origin=loop&status=applied":                   {planID.String()},
		plansPath + "?origin=loop&status=stale":                     {},
		"/api/v1/admin/revisions?source=fleet&status=invalid":       {"bad"},
		"/api/v1/admin/revisions?source=fleet&status=applied":       {"good"},
		"/api/v1/admin/revisions?source=other":                      {},
		"/api/v1/admin/drift?status=open&kind=Node&limit=200":       {driftID.String()},
		"/api/v1/admin/drift?status=healed":                         {},
		"/api/v1/admin/drift?status=open&kind=Allocation&limit=200": {},
	} {
		w := b.do(t, call{method: "GET", path: path, token: tokenOperator})
		var list struct{ Items []struct{ ID, Commit string } }
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 || len(list.Items) != len(want) {
			t.Errorf("%s: %d %s, want %v", path, w.Code, w.Body, want)
			continue
		}
		for _, one := range list.Items {
			if !slices.Contains(want, one.ID) && !slices.Contains(want, one.Commit) {
				t.Errorf("%s: %s, want %v", path, w.Body, want)
			}
		}
	}
}

// What the loop decided and what people propose is one history, page by page, the newest first.
func TestPlansAreOneHistory(t *testing.T) {
	t.Parallel()

	b := setup(t)
	change, last := b.propose(t), ids.New[ids.Plan]()
	b.sql(`INSERT INTO plans (id, hash, actions) VALUES ($1, '4f0a', 0)`, last)
	var found []string
	for path := plansPath + "?limit=1"; path != ""; {
		w := b.do(t, call{method: "GET", path: path, token: tokenOperator})
		var page oapi.PlanList
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 || len(page.Items) != 1 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		found = append(found, page.Items[0].Id.String()+" "+string(*page.Items[0].Origin))
		path = ""
		if page.NextCursor != nil {
			path = plansPath + "?limit=1&cursor=" + *page.NextCursor
		}
	}
	want := []string{last.String() + " loop", change + " change", planID.String() + " loop"}
	if !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	for id, field := range map[string]string{planID.String(): `"steps":[{`, change: `"approval_reasons":[`} {
		if w := b.do(t, call{method: "GET", path: plansPath + "/" + id, token: tokenOperator}); w.Code != 200 || !strings.Contains(w.Body.String(), field) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// A source shows what it is, and no reference to what it is read with.
func TestSourcesKeepTheirSecrets(t *testing.T) {
	t.Parallel()

	b := setup(t)
	w := b.do(t, call{method: "GET", path: "/api/v1/admin/git-sources/fleet", token: tokenOperator})
	var g oapi.GitSource
	if err := json.Unmarshal(w.Body.Bytes(), &g); err != nil || w.Code != 200 || g.Verify.Signers != 3 || !g.Verify.Required || g.Forge.Project != "acme/fleet" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if strings.Contains(w.Body.String(), "credential:") {
		t.Errorf("shows where secrets are: %s", w.Body)
	}
	if len(g.Conditions) == 0 || g.Conditions[0].Type != "Ready" || g.Conditions[0].Status != "True" {
		t.Errorf("conditions %v", g.Conditions)
	}
}

// A stale plan names what has changed.
func TestStalePlansSayWhatMoved(t *testing.T) {
	t.Parallel()

	b := setup(t)
	body := `{"files":{"sku.yaml":"apiVersion: gpuaas/v1alpha1\nkind: SKU\nmetadata: {name: t4}\nspec: {gpuModel: Tesla T4, memoryGiB: 16, price: {currency: EUR, amountMinor: %s}}\n"}}`
	propose := func(price string) string {
		w := b.do(t, call{method: "POST", path: plansPath, token: tokenOperator, body: strings.Replace(body, "%s", price, 1)})
		var made struct{ ID string }
		if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != 201 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return made.ID
	}
	decide := func(id, verb string) *httptest.ResponseRecorder {
		return b.do(t, call{method: "POST", path: plansPath + "/" + id + "/" + verb, token: tokenAdmin, body: `{}`})
	}
	first, second := propose("35"), propose("36")
	for _, id := range []string{first, second} {
		if w := decide(id, "approve"); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if w := decide(first, "apply"); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	w := decide(second, "apply")
	moved, _ := problem(t, w).Details["moved"].([]any)
	if w.Code != 409 || len(moved) != 1 || !strings.HasPrefix(moved[0].(string), "SKU/t4") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// What is sold and declared past the files is an administrator's.
func TestOperatorsApproveAndAdministratorsDeclare(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for what, c := range map[string]struct {
		method, path, body string
		operator, admin    int
	}{
		"propose": {"POST", plansPath, plannedFiles(), 201, 201},
		"approve": {"POST", "/approve", `{}`, 200, 200},
		"reject":  {"POST", "/reject", `{}`, 200, 200},
		"apply":   {"POST", "/apply", `{}`, 403, 200},
		"declare": {"PUT", "/api/v1/admin/desired/Node/new", `{"spec":` + nodeSpec + `}`, 403, 201},
		"suspend": {"POST", objectPath + "/suspend", `{"reason":"fans"}`, 200, 200},
		"adopt":   {"POST", "/api/v1/admin/desired/Node/" + node + "/adopt", `{"owner":"git","source":"fleet"}`, 403, 200},
		"set":     {"PUT", "/api/v1/admin/policies/" + windowKey, `{"value":60}`, 403, 200},
	} {
		for token, want := range map[string]int{tokenOwner: 403, tokenOperator: c.operator, tokenAdmin: c.admin} {
			path := c.path
			if !strings.HasPrefix(path, "/api/") {
				id := b.proposeAs(t, map[string]string{tokenOperator: tokenAdmin}[token])
				if what == "apply" {
					b.sql(`UPDATE plans SET status = 'approved', decided_by = 'user:x', decided_at = now() WHERE id = $1`, id)
				}
				path = plansPath + "/" + id + path
			}
			if w := b.do(t, call{method: c.method, path: path, token: token, body: c.body}); w.Code != want {
				t.Errorf("%s may %s: %d %s", nameOf(token), what, w.Code, w.Body)
			}
		}
	}
}

// files is a body with about so many bytes of them.
func files(size int) string {
	var text strings.Builder
	text.WriteString(`{"files":{"a":""`)
	for n := 0; text.Len() < size; n++ {
		part := min(1<<20, max(1, size-text.Len()-20))
		text.WriteString(`,"f` + uuid.NewString()[:8] + `":"` + strings.Repeat("x", part) + `"`)
	}
	text.WriteString("}}")
	return text.String()
}

// Only a plan may be large, and only for those who may make one.
func TestOnlyPlansAreLarge(t *testing.T) {
	t.Parallel()

	b := setup(t)
	large := files(23 << 20)
	if w := b.do(t, call{method: "POST", path: plansPath, token: tokenOperator, body: large}); w.Code == 413 {
		t.Errorf("of 23 MiB: %d %.300s", w.Code, w.Body)
	}
	beyond := files(24<<20 + 1)
	for what, body := range map[string]io.Reader{"of a length": strings.NewReader(beyond), "of no length": struct{ io.Reader }{strings.NewReader(beyond)}} {
		req := httptest.NewRequestWithContext(t.Context(), "POST", plansPath, body)
		req.Header.Set("Authorization", "Bearer "+tokenOperator)
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, req)
		if p := problem(t, w); w.Code != 413 || p.Code != "body_too_large" {
			t.Errorf("beyond 24 MiB, %s: %d %s", what, w.Code, w.Body)
		}
	}
	if w := b.do(t, call{method: "PUT", path: objectPath, token: tokenAdmin, body: files(1<<20 + 100)}); w.Code != 413 {
		t.Errorf("another call: %d %.300s", w.Code, w.Body)
	}
	if w := b.do(t, call{method: "POST", path: plansPath, token: tokenOwner, body: large}); w.Code != 403 {
		t.Errorf("a caller without the right: %d %.300s", w.Code, w.Body)
	}
}

// heldBody is a body that arrives when its test allows it.
type heldBody struct {
	text   io.Reader
	begun  chan struct{} // receives the first read
	arrive chan struct{}
}

func (b *heldBody) Read(p []byte) (int, error) {
	if b.begun != nil {
		close(b.begun)
		b.begun = nil
	}
	<-b.arrive
	return b.text.Read(p)
}

// unreadable is a body that the server must not read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body of a request without a turn was read")
	return 0, io.EOF
}

// Two at a time are evaluated; the third gets 429, before its body is
// read, and may when one is done.
func TestPlansHaveTurns(t *testing.T) {
	t.Parallel()

	b := setup(t)
	post := func(body io.Reader) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), "POST", plansPath, body)
		req.Header.Set("Authorization", "Bearer "+tokenOperator)
		req.Header.Set("Content-Type", "application/json")
		return b.serve(req)
	}
	answers, arrive := make(chan int), make(chan struct{})
	for range 2 {
		begun := make(chan struct{})
		body := &heldBody{strings.NewReader(plannedFiles()), begun, arrive}
		go func() { answers <- post(body).Code }()
		<-begun
	}
	if w := post(unreadable{t}); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("the third: %d %s", w.Code, w.Body)
	}
	close(arrive)
	for range 2 {
		if code := <-answers; code != 201 {
			t.Errorf("one of two: %d", code)
		}
	}
	for range 3 {
		if w := post(strings.NewReader(`{"files":`)); w.Code != 400 {
			t.Errorf("afterwards, broken: %d %s", w.Code, w.Body)
		}
	}
	if w := post(strings.NewReader(plannedFiles())); w.Code != 201 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

// A forge's body is passed on as it was signed. A sender who signs wrongly or guesses
// names of sources is limited by address, and gets the same response.
func TestHooksOfForges(t *testing.T) {
	t.Parallel()

	b := setup(t, slow(2))
	const body = "{\r\n \"ref\" : \"refs/heads/main\"}"
	right, wrong := hookSignature(body), hookSignature("another body")
	requested := func() time.Time {
		return read[time.Time](b, `SELECT greatest(sync_requested_at, '2000-01-01') FROM git_sources WHERE name = $1`, source)
	}
	hook := func(source, signature, from string) *httptest.ResponseRecorder {
		return b.do(t, call{
			method: "POST", path: "/api/v1/git/webhook/" + source, body: body, from: from,
			header: map[string]string{"X-Hub-Signature-256": signature, "X-GitHub-Event": "push"},
		})
	}
	before := requested()
	if w := hook("fleet", right, "192.0.2.1:1"); w.Code != 202 || !requested().After(before) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// The pusher is recorded, with the e-mail address of a user only.
	user := read[string](b, `SELECT email FROM users ORDER BY email LIMIT 1`)
	for login, email := range map[string]string{"ada": user, "eve": "eve@nowhere.example"} {
		pushed := fmt.Sprintf(`{"ref":"refs/heads/main","after":"c0ffee","sender":{"login":%q},"pusher":{"email":%q}}`, login, email)
		w := b.do(t, call{
			method: "POST", path: "/api/v1/git/webhook/fleet", body: pushed, from: "192.0.2.4:1",
			header: map[string]string{"X-Hub-Signature-256": hookSignature(pushed), "X-GitHub-Event": "push"},
		})
		if w.Code != 202 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if got := read[string](b, `SELECT string_agg(login || ' ' || email, ', ' ORDER BY login) FROM forge_pushes WHERE commit = 'c0ffee'`); got != "ada "+user+", eve " {
		t.Errorf("pushers %q", got)
	}
	unsigned, unknown := hook("fleet", wrong, "192.0.2.2:1"), hook("unknown", right, "192.0.2.2:1")
	if w, u := problem(t, unsigned), problem(t, unknown); unsigned.Code != 400 || unknown.Code != 400 || w.Code != u.Code || w.Message != u.Message {
		t.Errorf("signed wrongly: %d %s\nof no source: %d %s", unsigned.Code, unsigned.Body, unknown.Code, unknown.Body)
	}
	if w := hook("fleet", wrong, "192.0.2.2:1"); w.Code != 429 {
		t.Errorf("the third try: %d %s", w.Code, w.Body)
	}
	if w := hook("offline", right, "192.0.2.3:1"); w.Code != 400 || problem(t, w).Message != problem(t, unknown).Message {
		t.Errorf("a source without a forge: %d %s\nof no source: %s", w.Code, w.Body, unknown.Body)
	}
	if w := b.do(t, call{method: "POST", path: "/api/v1/git/webhook/fleet", body: strings.Repeat("x", 256<<10+1)}); w.Code != 413 {
		t.Errorf("a byte too much: %d %s", w.Code, w.Body)
	}
}

// An object has its state, and a trace has the steps to it.
func TestObjectsSayWhatTheirStateIs(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.sql(`INSERT INTO observed_objects (uid, kind, generation, spec_hash, observed_at) SELECT uid, kind, generation - 1, 'h', now() FROM desired_objects WHERE name = $1`, object)
	w := b.do(t, call{method: "GET", path: objectPath, token: tokenOperator})
	var o oapi.DesiredObject
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil || o.Status == nil || o.Status.Sync != "OutOfSync" || len(o.Status.Conditions) < 2 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = b.do(t, call{method: "GET", path: objectPath + "/trace", token: tokenOperator})
	var story oapi.Trace
	if err := json.Unmarshal(w.Body.Bytes(), &story); err != nil || len(story.Steps) == 0 || story.Steps[0].OccurredAt.IsZero() || story.Object.Status == nil {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	until := t0.Add(time.Hour)
	w = b.do(t, call{method: "POST", path: objectPath + "/suspend", token: tokenOperator, body: `{"reason":"fans","until":"` + until.In(time.FixedZone("", 3600)).Format(time.RFC3339) + `"}`})
	if held := read[time.Time](b, `SELECT suspended_until FROM desired_objects WHERE name = $1`, object); w.Code != 200 || !held.Equal(until) {
		t.Errorf("%d %s, suspended until %s", w.Code, w.Body, held)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil || o.Metadata.Suspended == nil || o.Metadata.Suspended.Reason != "fans" {
		t.Errorf("%s", w.Body)
	}
}
