package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/policies"
)

// named compares the URN of each resource in a response with the x-urn of its schema.
func (b *fixture) named(t *testing.T, op openapi.Operation, w *httptest.ResponseRecorder) {
	t.Helper()
	response := op.Responses.Status(w.Code)
	if response == nil || response.Value.Content["application/json"] == nil {
		return
	}
	var body any
	must(t, json.Unmarshal(w.Body.Bytes(), &body))
	eachResource(response.Value.Content["application/json"].Schema.Value, body, func(kind string, r map[string]any) {
		urn := strings.Split(fmt.Sprint(r["urn"]), ":")
		if id := firstOf(r, "id", "name", "revision"); len(urn) != 7 || urn[5] != kind || slices.Contains(urn, "") || urn[6] != fmt.Sprint(id) {
			t.Errorf("the URN of a %s with the id %v is %v", kind, id, r["urn"])
		}
		if created, updated := fmt.Sprint(r["created_at"]), fmt.Sprint(r["updated_at"]); strings.HasPrefix(created, "0001") || strings.HasPrefix(updated, "0001") {
			t.Errorf("a %s of %s, changed at %s", kind, created, updated)
		}
	})
}

func eachResource(s *openapi3.Schema, value any, visit func(kind string, r map[string]any)) {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			if s.Items != nil {
				eachResource(s.Items.Value, v, visit)
			}
		}
	case map[string]any:
		if kind, _ := s.Extensions["x-urn"].(string); kind != "" {
			visit(kind, value)
		}
		for name, p := range s.Properties {
			eachResource(p.Value, value[name], visit)
		}
	}
}

func firstOf(r map[string]any, names ...string) any {
	for _, name := range names {
		if r[name] != nil {
			return r[name]
		}
	}
	return nil
}

// TestEventsAreAboutTheResourceOfTheContract compares the URN of each event with the x-urn of its channel.
func TestEventsAreAboutTheResourceOfTheContract(t *testing.T) {
	t.Parallel()

	b := setup(t, provider, passwords)
	var contract struct {
		Channels map[string]struct {
			Address string
			Types   []string `yaml:"x-urn"`
		}
	}
	must(t, yaml.Unmarshal(asyncapi.Document, &contract))
	types := map[string][]string{}
	for _, c := range contract.Channels {
		types[c.Address] = c.Types
	}
	for _, op := range openapi.Operations(b.doc) {
		if op.Method != http.MethodGet && op.Security == nil {
			b.do(t, call{method: op.Method, path: b.freshPathOf(t, op), token: tokenFor(op), body: bodyOf(t, op), header: headersOf(op)})
		}
	}
	rows, err := b.db.Query(t.Context(), `SELECT DISTINCT subject, split_part(payload->>'urn', ':', 6) FROM outbox_events WHERE payload ? 'urn'`)
	must(t, err)
	var subject, kind string
	events := 0
	for rows.Next() {
		must(t, rows.Scan(&subject, &kind))
		if events++; !slices.Contains(types[subject], kind) {
			t.Errorf("%s is about a %s, and the contract lists %v", subject, kind, types[subject])
		}
	}
	if must(t, rows.Err()); events < 8 {
		t.Errorf("%d kinds of events", events)
	}
}

// TestUpdatedResourcesShowTheTime reads each resource again after an update.
func TestUpdatedResourcesShowTheTime(t *testing.T) {
	t.Parallel()

	b := setup(t, ticking)
	type times struct {
		CreatedAt string `json:"created_at"`
		UpdatedAt string `json:"updated_at"`
	}
	account, _ := b.program(t)
	made := b.addProject(unusedName("p")).String()
	user := b.addUser(project).String()
	for what, c := range map[string]struct{ path, token, body string }{
		"tenant":          {"/api/v1/tenant", tokenOwner, `{"name":"renamed"}`},
		"project":         {"/api/v1/projects/" + made, tokenOwner, `{"description":"new"}`},
		"service account": {"/api/v1/service-accounts/" + account, tokenOwner, `{"description":"new"}`},
		"user":            {"/api/v1/admin/users/" + user, tokenAdmin, `{"name":"New"}`},
		"allocation":      {allocations + "/" + b.allocate(t).Id.String(), tokenOwner, `{"labels":{"a":"b"}}`},
	} {
		var before, patched, after times
		read := func(into *times, a call) {
			t.Helper()
			w := b.do(t, a)
			if err := json.Unmarshal(w.Body.Bytes(), into); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", what, w.Code, w.Body)
			}
		}
		read(&before, call{method: "GET", path: c.path, token: c.token})
		read(&patched, call{method: "PATCH", path: c.path, token: c.token, body: c.body, header: map[string]string{"If-Match": "*"}})
		read(&after, call{method: "GET", path: c.path, token: c.token})
		if before.UpdatedAt == patched.UpdatedAt || patched != after || after.CreatedAt != before.CreatedAt {
			t.Errorf("%s: %v, then %v, then %v", what, before, patched, after)
		}
	}
}

// TestForbiddenComesFirst sends requests with a wrong form as callers whom no role allows the operation.
func TestForbiddenComesFirst(t *testing.T) {
	t.Parallel()

	b := setup(t)
	denied := 0
	for _, op := range openapi.Operations(b.doc) {
		if op.Security != nil {
			continue
		}
		for token, roles := range rolesOf() {
			if strings.Contains(op.Path, "/admin/") {
				roles = slices.DeleteFunc(slices.Clone(roles), func(r string) bool { return r != "admin" && r != "operator" })
			}
			if slices.ContainsFunc(roles, func(r string) bool { return policies.Allows(r, op.OperationID) }) {
				continue
			}
			denied++
			path := parameter.ReplaceAllString(op.Path, "x") + "?nonsense=1"
			w := b.do(t, call{method: op.Method, path: path, token: token, body: `{"nonsense":`, header: map[string]string{"If-Match": "x"}})
			if p := problem(t, w); w.Code != http.StatusForbidden || p.Code != oapi.ErrorCodeForbidden {
				t.Errorf("%s %s %s: %d %s", token, op.Method, path, w.Code, w.Body)
			}
		}
	}
	if denied < 200 {
		t.Errorf("only %d cells are denied", denied)
	}
}

// rolesOf returns the roles and scopes of the callers of the filled database, in any project.
func rolesOf() map[string][]string {
	all := map[string][]string{tokenProgram: {"service_account", "apps:read"}, tokenReader: {"service_account", "allocations:read"}}
	for token, p := range people {
		all[token] = []string{"user", "tenant." + p.tenantRole, "project." + p.projectRole}
		if p.role != "user" {
			all[token] = append(all[token], p.role)
		}
		if p.tenantRole == "owner" {
			all[token] = append(all[token], "project.admin")
		}
	}
	return all
}

// TestCurrencyMustBeThatOfTheTenant sends each amount with another currency.
func TestCurrencyMustBeThatOfTheTenant(t *testing.T) {
	t.Parallel()

	b := setup(t, provider)
	user := "/api/v1/admin/users/" + users[tokenOwner].String()
	for _, c := range []struct{ method, path, token, body string }{
		{"POST", "/api/v1/payments/checkout-session", tokenOwner, `{"amount_minor":5000,"currency":"%s"}`},
		{"PUT", "/api/v1/billing/limits", tokenOwner, `{"hourly_spend_minor":900,"currency":"%s"}`},
		{"POST", user + "/refunds", tokenAdmin, `{"kind":"unspent","amount_minor":5,"reason":"asked","currency":"%s"}`},
		{"POST", user + "/balance", tokenAdmin, `{"amount_minor":5,"reason":"asked","currency":"%s"}`},
	} {
		wrong := b.do(t, call{method: c.method, path: c.path, token: c.token, body: fmt.Sprintf(c.body, "USD")})
		if p := problem(t, wrong); wrong.Code != 400 || p.Details["field"] != "currency" || !strings.Contains(p.Message, "EUR") {
			t.Errorf("%s %s: %d %s", c.method, c.path, wrong.Code, wrong.Body)
		}
		if w := b.do(t, call{method: c.method, path: c.path, token: c.token, body: fmt.Sprintf(c.body, "EUR")}); w.Code >= 300 {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
}

// TestARevokedCredentialIsGone revokes a credential twice.
func TestARevokedCredentialIsGone(t *testing.T) {
	t.Parallel()

	b := setup(t)
	account, secret := b.program(t)
	path := "/api/v1/service-accounts/" + account + "/credentials/" + secret
	for _, want := range []int{204, 404} {
		if w := b.do(t, call{method: "DELETE", path: path, token: tokenOwner}); w.Code != want {
			t.Errorf("%d %s, want %d", w.Code, w.Body, want)
		}
	}
}

// TestAFixedPathHidesNoParameter calls a fixed path with the method of another path, whose parameter would match.
func TestAFixedPathHidesNoParameter(t *testing.T) {
	t.Parallel()

	b := setup(t)
	w := b.do(t, call{method: "GET", path: "/api/v1/service-accounts/token", token: tokenOwner})
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// TestStatusesOfKeysAndScopesAreDocumented causes the statuses that a key or a scope adds to an operation.
func TestStatusesOfKeysAndScopesAreDocumented(t *testing.T) {
	t.Parallel()

	b := setup(t)
	mint := call{method: "POST", path: "/api/v1/service-accounts/token", body: `{"secret":"` + credential + `","scopes":["billing:write"]}`}
	if w := b.do(t, mint); w.Code != http.StatusForbidden {
		t.Errorf("a scope that the account lacks: %d %s", w.Code, w.Body)
	}
	for _, want := range []int{204, 422} {
		path := "/api/v1/ssh-keys/" + b.make(t, "/api/v1/ssh-keys", `{"name":"`+unusedName("k")+`","public_key":"`+publicKey(t)+`"}`)
		if w := b.do(t, call{method: "DELETE", path: path, token: tokenOwner, header: map[string]string{"X-Idempotency-Key": "delete"}}); w.Code != want {
			t.Errorf("%d %s, want %d", w.Code, w.Body, want)
		}
	}
}

// TestAccessOfAnAllocation reads the condition of logins without an SSH key, and a certificate for a simulated node.
func TestAccessOfAnAllocation(t *testing.T) {
	t.Parallel()

	b := setup(t)
	a := b.allocate(t)
	b.activate(a.Id.String())
	b.sql(`INSERT INTO observed_allocations (allocation_id, node_id, phase, fence, observed_generation, spec_hash, message, observed_at)
		VALUES ($1, $2, 'ready', 1, 1, 'h', '', now())`, a.Id, a.NodeId)
	reason := func() (reason oapi.ConditionReason) {
		var shown oapi.Allocation
		w := b.do(t, call{method: "GET", path: allocations + "/" + a.Id.String(), token: tokenOwner})
		must(t, json.Unmarshal(w.Body.Bytes(), &shown))
		for _, c := range shown.Conditions {
			if c.Type == oapi.ConditionTypeAccessReady {
				reason = c.Reason
			}
		}
		return reason
	}
	if got := reason(); got != oapi.ConditionReasonNoSSHKey {
		t.Errorf("without a key: %s", got)
	}
	b.sql(`UPDATE desired_objects SET spec = jsonb_set(spec, '{keys}', '["ssh-ed25519 AAAA"]') WHERE uid = $1`, a.Id)
	if got := reason(); got != "Succeeded" {
		t.Errorf("with a key: %s", got)
	}
	w := b.do(t, call{method: "POST", path: allocations + "/" + a.Id.String() + "/ssh-certificate", token: tokenOwner, body: `{"public_key":"` + publicKey(t) + `"}`})
	var made oapi.SshCertificate
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || !made.Simulated || made.Via != oapi.SshCertificateViaRelay || strings.Contains(w.Body.String(), "\"host\"") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
