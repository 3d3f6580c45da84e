package rest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/reconciler"
)

const (
	objectPath = "/api/v1/admin/desired/Node/gpu-07"
	plansPath  = "/api/v1/admin/plans"
)

// The spec goes on as it was sent, and the tag says which version was changed.
func TestWhatIsDeclaredIsWhatWasSent(t *testing.T) {
	t.Parallel()

	spec := `{"amount": 9007199254740993, "sku":"h100-sxm"}`
	for what, c := range map[string]struct {
		path, tag string
		version   int64
		dry       bool
		status    int
	}{
		"a new one":                 {objectPath, "", 0, false, 201},
		"the next version":          {objectPath, `"4"`, 4, false, 200},
		"any version":               {objectPath, "*", declared.ResourceVersion, false, 200},
		"any version of nothing":    {"/api/v1/admin/desired/Node/none", "*", 0, false, 404},
		"only tried":                {objectPath + "?dry_run=true", "", 0, true, 201},
		"a tag that is not of ours": {objectPath, `"four"`, 0, false, 412},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			a := ask{method: "PUT", path: c.path, token: tokenAdmin, body: `{"labels":{"a":"b"},"spec":` + spec + `}`, header: map[string]string{"X-Idempotency-Key": "k"}}
			if c.tag != "" {
				a.header["If-Match"] = c.tag
			}
			w := b.do(t, a)
			if w.Code != c.status {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if c.status >= 400 {
				return
			}
			want := change.Write{Version: c.version, DryRun: c.dry, Object: desired.Object{
				Kind: desired.KindNode, Name: "gpu-07", Labels: map[string]string{"a": "b"}, Spec: json.RawMessage(spec),
			}}
			if got := b.archive.last(); !reflect.DeepEqual(got, want) {
				t.Errorf("asked for %+v, want %+v", got, want)
			}
			if at := w.Header().Get("Location"); (at == objectPath) != (c.status == 201) || w.Header().Get("ETag") == "" {
				t.Errorf("Location %q, ETag %q", at, w.Header().Get("ETag"))
			}
			if again := b.do(t, a); again.Code != w.Code || again.Body.String() != w.Body.String() || again.Header().Get("ETag") != w.Header().Get("ETag") {
				t.Errorf("the repetition: %d %s", again.Code, again.Body)
			}
		})
	}
}

// What only the door can tell is refused before a room is asked.
func TestChangesThatMeanNothing(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for what, c := range map[string]struct{ path, body, code, field string }{
		"held until a time that has gone by":      {objectPath + "/suspend", `{"reason":"fans","until":"2026-01-05T08:59:59Z"}`, "validation_error", "until"},
		"a source that is held until then":        {"/api/v1/admin/git-sources/fleet/suspend", `{"reason":"fans","until":"2026-01-05T09:00:00Z"}`, "validation_error", "until"},
		"a difference that is":                    {"/api/v1/admin/drift/" + drift1.ID.String() + "/ignore", `{"reason":"visit","until":"2026-01-05T09:00:00Z"}`, "validation_error", "until"},
		"moved to Git, and nowhere there":         {objectPath + "/adopt", `{"owner":"git"}`, "validation_error", "source"},
		"moved from Git into a source":            {objectPath + "/adopt", `{"owner":"api","source":"fleet"}`, "validation_error", "source"},
		"a plan of no files":                      {plansPath, `{"files":{}}`, "validation_error", "files"},
		"a commit that is none":                   {plansPath, `{"commit":"--upload-pack=x","files":{"a":"b"}}`, "validation_error", "commit"},
		"a file of more than a mebibyte":          {plansPath, `{"files":{"a":"` + strings.Repeat("x", 1<<20+1) + `"}}`, "validation_error", "files.a"},
		"a file that holds what no text may hold": {plansPath, `{"files":{"a":"\u0000"}}`, "validation_error", "files.a"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := b.do(t, ask{method: "POST", path: c.path, token: tokenAdmin, body: c.body})
			if p := problem(t, w); w.Code != 400 || string(p.Code) != c.code || p.Details["field"] != c.field {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	if w := b.do(t, ask{method: "DELETE", path: objectPath, token: tokenAdmin}); w.Code != http.StatusPreconditionRequired {
		t.Errorf("deleting any version: %d %s", w.Code, w.Body)
	}
	if asked := b.archive.last(); asked != nil {
		t.Errorf("a room was asked for %v", asked)
	}
}

// A policy is held against its key here, so that nothing that is not a value of it
// becomes a declaration.
func TestValuesOfPolicies(t *testing.T) {
	t.Parallel()

	for what, c := range map[string]struct {
		key, body string
		status    int
		field     any
		want      setting
	}{
		"for everybody":         {"billing.window_seconds", `{"value":60}`, 200, nil, setting{"billing.window_seconds", policies.Platform, int64(60), 0}},
		"for one tenant":        {"allocation.max_gpus", `{"value":4,"scope":"tenant:acme"}`, 200, nil, setting{"allocation.max_gpus", "tenant:acme", int64(4), 0}},
		"beyond its bounds":     {"billing.window_seconds", `{"value":1}`, 400, "value", setting{}},
		"of another type":       {"billing.window_seconds", `{"value":"60"}`, 400, "value", setting{}},
		"neither whole nor not": {"billing.window_seconds", `{"value":60.5}`, 400, "value", setting{}},
		"where it cannot be":    {"billing.window_seconds", `{"value":60,"scope":"tenant:acme"}`, 400, "scope", setting{}},
		"of no scope":           {"billing.window_seconds", `{"value":60,"scope":"planet:earth"}`, 400, "scope", setting{}},
		"of no key":             {"billing.windows", `{"value":60}`, 404, nil, setting{}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			w := b.do(t, ask{method: "PUT", path: "/api/v1/admin/policies/" + c.key, token: tokenAdmin, body: c.body})
			if w.Code != c.status {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if c.status == 200 {
				if got := b.archive.last(); !reflect.DeepEqual(got, c.want) {
					t.Errorf("asked for %+v, want %+v", got, c.want)
				}
			} else if p := problem(t, w); p.Details["field"] != c.field {
				t.Errorf("%s", w.Body)
			}
		})
	}
}

// Every key is on some page, in order, with its default and what is set.
func TestAllPoliciesAreListed(t *testing.T) {
	t.Parallel()

	b := setup(t)
	found, cursor := []string{}, ""
	for range 100 {
		w := b.do(t, ask{method: "GET", path: "/api/v1/admin/policies?limit=7" + cursor, token: tokenOperator})
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
			t.Errorf("%s stands before %s", found[i-1], found[i])
		}
	}
}

// Filters reach the rooms, in their words.
func TestListsAreFiltered(t *testing.T) {
	t.Parallel()

	for path, want := range map[string]any{
		plansPath + "?origin=change&source=fleet&status=proposed":   change.Filter{Source: "fleet", Status: "proposed", Limit: 51},
		plansPath + "?origin=loop&status=applied":                   "applied",
		"/api/v1/admin/revisions?source=fleet&status=invalid":       revision.RevisionFilter{Source: "fleet", Status: "invalid"},
		"/api/v1/admin/drift?status=open&kind=Allocation&limit=200": reconciler.DriftFilter{Status: "open", Kind: "Allocation", Limit: 201},
	} {
		b := setup(t)
		if w := b.do(t, ask{method: "GET", path: path, token: tokenOperator}); w.Code != 200 || !reflect.DeepEqual(b.archive.asked, []any{want}) {
			t.Errorf("%s: %d %s, requested %+v", path, w.Code, w.Body, b.archive.asked)
		}
	}
}

// What the loop decided and what people propose is one history, page by page.
func TestPlansAreOneHistory(t *testing.T) {
	t.Parallel()

	b := setup(t)
	var found []string
	for path := plansPath + "?limit=1"; path != ""; {
		w := b.do(t, ask{method: "GET", path: path, token: tokenOperator})
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
	want := []string{plan2.ID.String() + " loop", change1.ID.String() + " change", plan1.ID.String() + " loop"}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	for id, field := range map[string]string{plan1.ID.String(): `"steps":[{`, change1.ID.String(): `"approval_reasons":[]`} {
		if w := b.do(t, ask{method: "GET", path: plansPath + "/" + id, token: tokenOperator}); w.Code != 200 || !strings.Contains(w.Body.String(), field) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// A source shows what it is, and no reference to what it is read with.
func TestSourcesKeepTheirSecrets(t *testing.T) {
	t.Parallel()

	b := setup(t)
	w := b.do(t, ask{method: "GET", path: "/api/v1/admin/git-sources/fleet", token: tokenOperator})
	var g oapi.GitSource
	if err := json.Unmarshal(w.Body.Bytes(), &g); err != nil || w.Code != 200 || g.Verify.Signers != 3 || !g.Verify.Required || g.Forge.Project != "acme/fleet" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if strings.Contains(w.Body.String(), "env:TOKEN") || strings.Contains(w.Body.String(), "/etc/hook") {
		t.Errorf("shows where secrets are: %s", w.Body)
	}
	if len(g.Conditions) == 0 || g.Conditions[0].Type != "Ready" || g.Conditions[0].Status != "True" {
		t.Errorf("conditions %v", g.Conditions)
	}
}

// A stale plan says what moved.
func TestStalePlansSayWhatMoved(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for _, verb := range []string{"approve", "apply"} {
		w := b.do(t, ask{method: "POST", path: plansPath + "/" + change1.ID.String() + "/" + verb, token: tokenAdmin, body: `{"hash":"moved"}`})
		moved, _ := problem(t, w).Details["moved"].([]any)
		if w.Code != 409 || len(moved) != 1 || moved[0] != "Node/n7: generation 3, was 2" {
			t.Errorf("%s: %d %s", verb, w.Code, w.Body)
		}
	}
}

// What is sold and declared past the files is an administrator's.
func TestOperatorsJudgeAndAdministratorsDeclare(t *testing.T) {
	t.Parallel()

	b := setup(t)
	one := plansPath + "/" + change1.ID.String()
	for what, c := range map[string]struct {
		method, path, body string
		operator           int
	}{
		"propose": {"POST", plansPath, `{"files":{"a":"b"}}`, 201},
		"approve": {"POST", one + "/approve", `{}`, 200},
		"reject":  {"POST", one + "/reject", `{}`, 200},
		"apply":   {"POST", one + "/apply", `{}`, 403},
		"declare": {"PUT", objectPath, `{"spec":{}}`, 403},
		"suspend": {"POST", objectPath + "/suspend", `{"reason":"fans"}`, 200},
		"adopt":   {"POST", objectPath + "/adopt", `{"owner":"api"}`, 403},
		"set":     {"PUT", "/api/v1/admin/policies/billing.window_seconds", `{"value":60}`, 403},
	} {
		if w := b.do(t, ask{method: c.method, path: c.path, token: tokenOperator, body: c.body}); w.Code != c.operator {
			t.Errorf("an operator may %s: %d %s", what, w.Code, w.Body)
		}
		if w := b.do(t, ask{method: c.method, path: c.path, token: tokenAdmin, body: c.body}); w.Code >= 300 {
			t.Errorf("an administrator may %s: %d %s", what, w.Code, w.Body)
		}
		if w := b.do(t, ask{method: c.method, path: c.path, token: tokenOwner, body: c.body}); w.Code != 403 {
			t.Errorf("an owner may %s: %d %s", what, w.Code, w.Body)
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
	if w := b.do(t, ask{method: "POST", path: plansPath, token: tokenOperator, body: large}); w.Code != 201 {
		t.Errorf("of 23 MiB: %d %.300s", w.Code, w.Body)
	}
	beyond := files(24<<20 + 1)
	for what, body := range map[string]io.Reader{"of a length": strings.NewReader(beyond), "of no length": struct{ io.Reader }{strings.NewReader(beyond)}} {
		req := httptest.NewRequestWithContext(t.Context(), "POST", plansPath, body)
		req.Header.Set("Authorization", "Bearer "+tokenOperator)
		w := httptest.NewRecorder()
		b.door.ServeHTTP(w, req)
		if p := problem(t, w); w.Code != 413 || p.Code != "body_too_large" {
			t.Errorf("beyond 24 MiB, %s: %d %s", what, w.Code, w.Body)
		}
	}
	if w := b.do(t, ask{method: "PUT", path: objectPath, token: tokenAdmin, body: files(1<<20 + 100)}); w.Code != 413 {
		t.Errorf("another call: %d %.300s", w.Code, w.Body)
	}
	if w := b.do(t, ask{method: "POST", path: plansPath, token: tokenOwner, body: large}); w.Code != 403 {
		t.Errorf("somebody who may not: %d %.300s", w.Code, w.Body)
	}
}

// unread is a body that nobody may read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body of a request without a turn was read")
	return 0, io.EOF
}

// Two at a time are looked at; the third is told to come again, before its body is
// read, and may when one is done.
func TestPlansHaveTurns(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.archive.begun, b.archive.done = make(chan struct{}), make(chan struct{})
	answers := make(chan int)
	for range 2 {
		go func() {
			answers <- b.do(t, ask{method: "POST", path: plansPath, token: tokenOperator, body: `{"files":{"a":"b"}}`}).Code
		}()
		<-b.archive.begun
	}
	req := httptest.NewRequestWithContext(t.Context(), "POST", plansPath, unread{t})
	req.Header.Set("Authorization", "Bearer "+tokenOperator)
	w := httptest.NewRecorder()
	b.door.ServeHTTP(w, req)
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("the third: %d %s", w.Code, w.Body)
	}
	close(b.archive.done)
	for range 2 {
		if code := <-answers; code != 201 {
			t.Errorf("one of two: %d", code)
		}
	}
	b.archive.begun = nil
	for range 3 {
		if w := b.do(t, ask{method: "POST", path: plansPath, token: tokenOperator, body: `{"files":`}); w.Code != 400 {
			t.Errorf("afterwards, broken: %d %s", w.Code, w.Body)
		}
	}
	if w := b.do(t, ask{method: "POST", path: plansPath, token: tokenOperator, body: `{"files":{"a":"b"}}`}); w.Code != 201 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

// A forge's body comes through as it was signed. Whoever signs wrongly or guesses
// names of sources is slowed down by address, and told the same.
func TestHooksOfForges(t *testing.T) {
	t.Parallel()

	b := setup(t, slow(2))
	hook := func(source, signature, from string) *httptest.ResponseRecorder {
		return b.do(t, ask{
			method: "POST", path: "/api/v1/git/webhook/" + source, body: "{\r\n \"ref\" : 1}", from: from,
			header: map[string]string{"X-Hub-Signature-256": signature, "X-GitHub-Event": "push"},
		})
	}
	if w := hook("fleet", "right", "192.0.2.1:1"); w.Code != 202 || b.archive.last() != "{\r\n \"ref\" : 1}" {
		t.Errorf("%d %s, received %q", w.Code, w.Body, b.archive.last())
	}
	wrong, unknown := hook("fleet", "wrong", "192.0.2.2:1"), hook("guess", "right", "192.0.2.2:1")
	if w, u := problem(t, wrong), problem(t, unknown); wrong.Code != 400 || unknown.Code != 400 || w.Code != u.Code || w.Message != u.Message {
		t.Errorf("signed wrongly: %d %s\nof no source: %d %s", wrong.Code, wrong.Body, unknown.Code, unknown.Body)
	}
	if w := hook("fleet", "wrong", "192.0.2.2:1"); w.Code != 429 {
		t.Errorf("the third try: %d %s", w.Code, w.Body)
	}
	if w := hook("offline", "right", "192.0.2.3:1"); w.Code != 404 {
		t.Errorf("a source without a forge: %d %s", w.Code, w.Body)
	}
	if w := b.do(t, ask{method: "POST", path: "/api/v1/git/webhook/fleet", body: strings.Repeat("x", 256<<10+1)}); w.Code != 413 {
		t.Errorf("a byte too much: %d %s", w.Code, w.Body)
	}
}

// An object says how it stands with it, and a trace how it came to be so.
func TestObjectsSayHowItStands(t *testing.T) {
	t.Parallel()

	b := setup(t)
	w := b.do(t, ask{method: "GET", path: objectPath, token: tokenOperator})
	var o oapi.DesiredObject
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil || o.Status == nil || o.Status.Sync != "OutOfSync" || len(o.Status.Conditions) < 2 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = b.do(t, ask{method: "GET", path: objectPath + "/trace", token: tokenOperator})
	var story oapi.Trace
	if err := json.Unmarshal(w.Body.Bytes(), &story); err != nil || len(story.Steps) != 1 || !story.Steps[0].OccurredAt.Equal(t0) || story.Object.Status == nil {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	until := t0.Add(time.Hour)
	w = b.do(t, ask{method: "POST", path: objectPath + "/suspend", token: tokenOperator, body: `{"reason":"fans","until":"2026-01-05T11:00:00+01:00"}`})
	if h, _ := b.archive.last().(held); w.Code != 200 || h.reason != "fans" || h.until == nil || !h.until.Equal(until) {
		t.Errorf("%d %s, requested %+v", w.Code, w.Body, h)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil || o.Metadata.Suspended == nil || o.Metadata.Suspended.Reason != "fans" {
		t.Errorf("%s", w.Body)
	}
}
