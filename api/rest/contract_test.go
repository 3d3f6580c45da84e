package rest_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
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
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/protocol"
)

var parameter = regexp.MustCompile(`\{[a-z_]+\}`)

// unread is the id of nothing, for requests that are rejected before a service reads it.
var unread = uuid.Must(uuid.NewV7()).String()

// pathOf fills the parameters of a path with what the filled database has, or with ids of nothing.
func pathOf(op openapi.Operation) string {
	name := node
	switch {
	case strings.Contains(op.Path, "/git-sources/"):
		name = source
	case strings.Contains(op.Path, "/desired/"):
		name = object
	case strings.Contains(op.Path, "/consumers/"):
		name = "notification_relay_low_balance"
	case strings.Contains(op.Path, "/runbooks/"):
		name = "section-degraded"
	}
	if strings.HasSuffix(op.Path, "/storage/signed") {
		return op.Path + "?grant=forged"
	}
	if needsPath(op) {
		return op.Path + "?path=" + storedPath
	}
	return parameter.ReplaceAllString(strings.NewReplacer(
		"{project_id}", project.String(), "{service_account_id}", robot.String(), "{tenant_id}", tenant.String(), "{user_id}", users[tokenMember].String(),
		"{number}", "1", "{month}", t0.Format("2006-01"), "{kind}", "Node", "{name}", name, "{revision}", "1", "{key}", windowKey, "{source}", source, "{sku}", sku,
	).Replace(op.Path), unread)
}

// freshPathOf is pathOf with objects that are made for this request, because the operation may change or
// remove them.
func (b *fixture) freshPathOf(t *testing.T, op openapi.Operation) string {
	t.Helper()
	fill := func(name, value string) string {
		return pathOf(openapi.Operation{Path: strings.Replace(op.Path, name, value, 1)})
	}
	switch path := op.Path; {
	case strings.HasSuffix(path, "/breaker/clear"):
		b.sql(`INSERT INTO breaker_trips (held, allowed, fleet, reason, rejected_nodes) VALUES (2, 2, 9, 'n7: hot', '{}') ON CONFLICT DO NOTHING`)
		return path
	case strings.Contains(path, "{storage_key_id}"):
		return fill("{storage_key_id}", read[string](b, `INSERT INTO storage_access_keys (id, org_id, project_id, access_key_id, secret_enc, name, read_only, creator, created_by)
			SELECT id, $1, $2, id::text, '', 'k', true, '{}', 'u' FROM gen_random_uuid() AS id RETURNING id::text`, tenant, project))
	case strings.Contains(path, "/storage/keys"):
		return path
	case strings.Contains(path, "/storage/"):
		return b.storedPathOf(t, op)
	case strings.Contains(path, "/allocations/{id}"):
		id := b.allocate(t).Id.String()
		switch op.OperationID {
		case "createSshCertificate", "createTerminalToken", "reportAllocationFault":
			b.activate(id)
		case "getAllocationProof":
			b.sql(`INSERT INTO release_proofs (allocation_id, proof, public_key) VALUES ($1, '{"fence": 2}', '\\x01')`, id)
		case "forceReleaseAllocation":
			b.move(id, "requested", "provisioning", "active", "releasing", "release_failed")
		}
		return fill("{id}", id)
	case strings.Contains(path, "/evidence/{id}"):
		return fill("{id}", read[string](b, `INSERT INTO evidence_bundles (id, org_id, kind, about, subject, cause, requested_by)
			SELECT id, $1, 'allocation', 'a', id::text, id::text, 'u' FROM gen_random_uuid() AS id RETURNING id::text`, tenant))
	case strings.Contains(path, "/payments/sessions/{id}"):
		return fill("{id}", b.make(t, "/api/v1/payments/checkout-session", `{"amount_minor":5000}`))
	case strings.Contains(path, "/payments/auto-topups/{id}"):
		return fill("{id}", b.mandate(op))
	case strings.Contains(path, "/sessions/{id}"):
		id, _ := b.start(tokenFor(op))
		return fill("{id}", id.String())
	case strings.Contains(path, "/terminal-sessions/{id}"):
		return fill("{id}", read[string](b, `INSERT INTO terminal_sessions (id, org_id, project_id, allocation_id, node_id, fence, instance_id, principal, by_program, sign_in_id,
				scopes, limited, purpose, address, user_agent, correlation_id)
			SELECT gen_random_uuid(), org_id, project_id, id, id, 1, id, $2, false, id, '{}', false, 'shell', '', '', '' FROM allocations WHERE id = $1 RETURNING id::text`,
			b.allocate(t).Id, users[tokenOwner]))
	case strings.Contains(path, "/terminal-recordings/{id}"):
		id := ids.New[ids.Task]().UUID // no other kind has it
		key := identitytest.Seal(b).Seal(envelope.NewKey(), envelope.Place{Table: "terminal_recordings", Column: "key_enc", Row: id.String()})
		b.sql(`INSERT INTO terminal_recordings (id, org_id, project_id, allocation_id, principal, required, columns, rows, key_enc, correlation_id)
			SELECT $1, org_id, project_id, id, $2, true, 80, 24, $3, '' FROM allocations WHERE id = $4`, id, users[tokenOwner], key, b.allocate(t).Id)
		return fill("{id}", id.String())
	case strings.Contains(path, "{service_account_id}"):
		account, credential := b.program(t)
		return strings.NewReplacer("{service_account_id}", account, "{credential_id}", credential).Replace(path)
	case strings.Contains(path, "{webhook_id}"):
		hook, delivery := b.webhook()
		return strings.NewReplacer("{webhook_id}", hook, "{delivery_id}", delivery).Replace(path)
	case strings.Contains(path, "/git-sources/{name}"):
		return fill("{name}", b.source())
	case strings.Contains(path, "/gpus/{gpu}"):
		return strings.NewReplacer("{name}", cordoned, "{gpu}", "GPU-"+cordoned+"-1").Replace(path)
	case strings.Contains(path, "/suppressed-addresses/"):
		id := read[string](b, `INSERT INTO suppressed_addresses (id, address, reason) VALUES (gen_random_uuid(), gen_random_uuid()::text, 'r') RETURNING id::text`)
		return fill("{id}", id)
	case strings.Contains(path, "/events/"):
		id := read[string](b, `INSERT INTO dead_letters (id, consumer, event_id, stream, subject, error, attempts, dead_at)
			VALUES (gen_random_uuid(), 'notification_relay_low_balance', gen_random_uuid(), 'BILLING', 'billing.low_balance_warning', 'x', 10, now()) RETURNING id::text`)
		return fill("{id}", id)
	case strings.Contains(path, "/fault-reports/{id}"):
		return fill("{id}", read[string](b, `INSERT INTO fault_reports (id, allocation_id, org_id, node_id, message, reported_by)
			SELECT gen_random_uuid(), $1, $2, id, 'm', 'user:x' FROM nodes WHERE name = $3 RETURNING id::text`, b.allocate(t).Id, tenant, node))
	case strings.Contains(path, "/nodes/{name}"), strings.Contains(path, "/desired/{kind}/{name}"):
		name, _ := b.newNode()
		return fill("{name}", name)
	case strings.Contains(path, "/slots/{id}"):
		_, slot := b.newNode()
		return fill("{id}", slot)
	case strings.Contains(path, "/plans/{id}"), strings.Contains(path, "/changes/{id}"):
		return fill("{id}", b.propose(t))
	case strings.Contains(path, "/drift/{id}"):
		return fill("{id}", b.drift())
	case strings.Contains(path, "/ssh-keys/{id}"):
		return fill("{id}", b.make(t, "/api/v1/ssh-keys", `{"name":"`+unusedName("k")+`","public_key":"`+publicKey(t)+`"}`))
	case strings.Contains(path, "/api-keys/{id}"):
		return fill("{id}", b.make(t, "/api/v1/api-keys", `{"name":"`+unusedName("k")+`"}`))
	case strings.Contains(path, "/invitations/{id}"):
		return fill("{id}", b.make(t, "/api/v1/tenant/invitations", `{"email":"`+unusedName("i")+`@b.test","role":"member"}`))
	case strings.Contains(path, "{own_invitation_id}"):
		return fill("{own_invitation_id}", b.invite(newcomer(op)))
	case op.OperationID == "deleteTenant":
		made := ids.New[ids.Tenant]()
		b.sql(`INSERT INTO tenants (id, name) VALUES ($1, $2)`, made, unusedName("t"))
		return fill("{tenant_id}", made.String())
	case strings.Contains(path, "{project_id}"):
		made := b.addProject(unusedName("p"))
		return strings.NewReplacer("{project_id}", made.String(), "{user_id}", b.addUser(made).String()).Replace(path)
	case strings.Contains(path, "{user_id}"):
		return fill("{user_id}", b.addUser(ids.Project{}).String())
	}
	return pathOf(op)
}

// mandate writes an automatic top-up for one operation. A tenant has one that is confirmed and one that is not, so the
// operations of this contract use different ones.
func (b *fixture) mandate(op openapi.Operation) string {
	b.Helper()
	of, status := tenant, "ended"
	switch op.OperationID {
	case "confirmAutoTopup":
		status = "paused"
	case "deleteAutoTopup":
		of, status = theirs, "paused"
	}
	b.sql(`UPDATE payment_mandates SET status = 'ended' WHERE org_id = $1 AND status = $2`, of, status)
	return read[string](b, `INSERT INTO payment_mandates (id, org_id, principal, status, customer, livemode, currency, payment_method, threshold_minor, amount_minor, monthly_cap_minor, confirmed_at)
		VALUES (gen_random_uuid(), $1, $1, $2, 'cus_1', false, 'EUR', 'pm_1', 1, 1, 1, now()) RETURNING id::text`, of, status)
}

// newcomer is the API key of a user without a tenant, for one operation.
func newcomer(op openapi.Operation) string {
	return (identity.KeyPrefix + op.OperationID + strings.Repeat("0", identity.TokenLength))[:identity.TokenLength]
}

// invite writes a user without a tenant who has the API key, and returns an invitation of the user.
func (b *fixture) invite(key string) string {
	b.Helper()
	user, made := ids.New[ids.User](), ids.New[ids.Invitation]()
	b.sql(`INSERT INTO users (id, oidc_subject, email, name, role) VALUES ($1, $2, $2, 'New', 'user')`, user, unusedName("new")+"@dev.localhost")
	b.sql(`INSERT INTO api_keys (id, user_id, name, secret_hash) VALUES ($1, $2, 'test', $3)`, ids.New[ids.APIKey](), user, hashOf(key))
	b.sql(`INSERT INTO invitations (id, org_id, email, role, invited_by, expires_at) SELECT $1, $2, email, 'viewer', $3, now() + interval '1 day' FROM users WHERE id = $3`,
		made, tenant, user)
	return made.String()
}

// newNode creates a node for one test, and returns its name and a slot of it.
func (b *fixture) newNode() (name, slot string) {
	b.Helper()
	name = unusedName("n")
	addNode(b.sql, name, "other", 1)
	return name, read[string](b, `SELECT id::text FROM slots WHERE gpu_uuid = 'GPU-' || $1 || '-1'`, name)
}

// activate moves an allocation as the loop would.
func (b *fixture) activate(id string) {
	b.Helper()
	b.move(id, "requested", "provisioning", "active")
}

// move moves an allocation from state to state, as its node and its users would.
func (b *fixture) move(id string, states ...string) {
	b.Helper()
	for i := range states[1:] {
		step := states[i : i+2]
		b.sql(`WITH moved AS (
				UPDATE allocations SET status = $3, version = version + 1, status_at = now(), active_at = CASE WHEN $3 = 'active' THEN now() ELSE active_at END
				WHERE id = $1 AND status = $2 RETURNING id, version
			)
			INSERT INTO allocation_transitions (allocation_id, version, trigger, from_status, to_status, reason, message)
			SELECT id, version, CASE WHEN $3 = 'active' THEN 'node_ready' ELSE 'task_queued' END, $2, $3, '', '' FROM moved`, id, step[0], step[1])
	}
}

func (b *fixture) source() string {
	b.Helper()
	name := unusedName("s")
	b.sql(`INSERT INTO git_sources (name, repository, ref, dirs, declared_by) VALUES ($1, 'file:///nowhere', 'main', '{.}', 'server')`, name)
	return name
}

func (b *fixture) drift() string {
	b.Helper()
	return read[string](b, `INSERT INTO drift (kind, object_id, name, field, currency) VALUES ('Node', gen_random_uuid(), $1, 'gpus', 'EUR') RETURNING id::text`, unusedName("d"))
}

// propose makes a plan. Its author is the operator, so that an administrator may approve it.
func (b *fixture) propose(t testing.TB) string {
	t.Helper()
	return b.proposeAs(t, tokenOperator)
}

// proposeAs makes a plan of an author, who must not approve it.
func (b *fixture) proposeAs(t testing.TB, author string) string {
	t.Helper()
	if author == "" {
		author = tokenOperator
	}
	res := b.do(t, call{method: "POST", path: plansPath, token: author, body: plannedFiles()})
	var made struct{ ID string }
	if err := json.Unmarshal(res.Body.Bytes(), &made); err != nil || res.Code != http.StatusCreated {
		t.Fatalf("proposing: %d %s", res.Code, res.Body)
	}
	return made.ID
}

// plannedFiles is the body of a plan that declares a new SKU.
func plannedFiles() string {
	text, _ := json.Marshal(map[string]any{"files": map[string]string{"sku.yaml": `apiVersion: gpuaas/v1alpha1
kind: SKU
metadata: {name: ` + unusedName("s") + `}
spec: {gpuModel: Tesla T4, memoryGiB: 16, price: {currency: EUR, amountMinor: 35}}
`}})
	return string(text)
}

// fresh are the headers that an operation needs for a change.
func fresh(op openapi.Operation) map[string]string {
	for _, p := range op.Parameters {
		if p.Value.Name == "If-Match" && !writesFile(op) {
			return map[string]string{"If-Match": "*"}
		}
	}
	return nil
}

// signed are the headers and the body of what a foreign system signs.
func signed(op openapi.Operation) (body string, header map[string]string) {
	if op.OperationID == "receiveGitHook" {
		body = `{"ref":"refs/heads/elsewhere"}`
		return body, map[string]string{"X-Hub-Signature-256": hookSignature(body), "X-GitHub-Event": "push"}
	}
	body = signedEvent("evt_" + op.OperationID)
	return body, map[string]string{"Stripe-Signature": signature(body)}
}

// tokenFor returns a token that may call the operation.
func tokenFor(op openapi.Operation) string {
	switch {
	case op.Security != nil:
		return ""
	case strings.Contains(op.Path, "/admin/"), strings.Contains(op.Path, "/v3/platform/"):
		return tokenAdmin
	case op.OperationID == "deleteAutoTopup": // see mandate
		return tokenTheirs
	}
	return tokenOwner
}

// bodies are those of operations whose example names what only exists in the example.
var bodies = map[string]func(*testing.T) map[string]any{
	"exchangeOidc": func(*testing.T) map[string]any { return map[string]any{"id_token": nameOf(tokenOwner)} },
	"loginPersonal": func(*testing.T) map[string]any {
		return map[string]any{"email": emailOf(tokenOwner), "password": rightPassword}
	},
	"refreshToken": func(*testing.T) map[string]any { return map[string]any{"refresh_token": nameOf(tokenOwner)} },
	"mintServiceAccountToken": func(*testing.T) map[string]any {
		return map[string]any{"secret": credential, "scopes": []string{"allocations:read"}}
	},
	"setPassword": func(*testing.T) map[string]any {
		return map[string]any{"current": rightPassword, "password": rightPassword + "!", "end_api_keys": false} // other requests use them
	},
	"createSshKey": func(t *testing.T) map[string]any {
		return map[string]any{"name": unusedName("k"), "public_key": publicKey(t)}
	},
	"createSshCertificate": func(t *testing.T) map[string]any { return map[string]any{"public_key": publicKey(t)} },
	"acceptNodeHardware": func(*testing.T) map[string]any {
		return map[string]any{"reason": "replaced", "fingerprint": (&protocol.Topology{}).Hardware().Fingerprint()}
	},
	"createPlan": func(t *testing.T) map[string]any {
		body := map[string]any{}
		must(t, json.Unmarshal([]byte(plannedFiles()), &body))
		return body
	},
	"approvePlan": func(*testing.T) map[string]any { return map[string]any{"reason": "agreed"} },
	"applyPlan":   func(*testing.T) map[string]any { return map[string]any{} },
	"createNode": func(*testing.T) map[string]any {
		return map[string]any{"name": unusedName("n"), "sku": sku, "region": region, "gpus": 8}
	},
	"createUser": func(*testing.T) map[string]any {
		return map[string]any{"email": unusedName("u") + "@dev.localhost", "name": "New"}
	},
	"createTenant":        func(*testing.T) map[string]any { return map[string]any{"name": unusedName("t")} },
	"createStorageKey":    func(*testing.T) map[string]any { return map[string]any{"name": "k"} },
	"createStorageFolder": func(*testing.T) map[string]any { return map[string]any{"path": unusedName("d")} },
	"createStorageUpload": func(*testing.T) map[string]any { return map[string]any{"path": unusedName("f"), "size_bytes": 9} },
	"signStorageParts": func(*testing.T) map[string]any {
		return map[string]any{"parts": []map[string]any{{"number": 1, "size_bytes": 9, "sha256": strings.Repeat("0", 64)}}}
	},
	"renameStorage":  func(*testing.T) map[string]any { return map[string]any{"from": "renamed.txt", "to": unusedName("f")} },
	"copyStorage":    func(*testing.T) map[string]any { return map[string]any{"from": storedPath, "to": unusedName("f")} },
	"signStorageUrl": func(*testing.T) map[string]any { return map[string]any{"path": storedPath} },
	"restoreStorage": func(*testing.T) map[string]any {
		return map[string]any{"object_id": storedDeleted, "path": unusedName("f")}
	},
}

// bodyOf is the example of the contract, with times in the future.
func bodyOf(t *testing.T, op openapi.Operation) string {
	t.Helper()
	if op.RequestBody == nil {
		return ""
	}
	if op.Extensions["x-signed"] != nil {
		body, _ := signed(op)
		return body
	}
	if op.Extensions["x-stream"] != nil {
		return "the bytes"
	}
	body := map[string]any{}
	if known := bodies[op.OperationID]; known != nil {
		body = known(t)
	} else if example, ok := op.RequestBody.Value.Content["application/json"].Example.(map[string]any); ok {
		body = maps.Clone(example)
	}
	if body["until"] != nil {
		body["until"] = t0.Add(time.Hour).Format(time.RFC3339)
	}
	text, err := json.Marshal(body)
	must(t, err)
	return string(text)
}

// headersOf returns the headers that an operation needs.
func headersOf(op openapi.Operation) map[string]string {
	if op.Extensions["x-signed"] != nil {
		_, header := signed(op)
		return header
	}
	header := fresh(op)
	if strings.HasPrefix(op.Tags[0], "Storage") {
		header = map[string]string{"X-Project-ID": project.String()}
	}
	return header
}

// forEach runs for every operation of the contract, in one world.
func forEach(t *testing.T, run func(t *testing.T, w *fixture, op openapi.Operation)) {
	t.Helper()
	w := setup(t, provider, passwords)
	for _, op := range openapi.Operations(w.doc) {
		t.Run(op.OperationID, func(t *testing.T) {
			t.Parallel()
			run(t, w, op)
		})
	}
}

// conforms checks a response against the contract: status, headers, media type, body.
func (b *fixture) conforms(t *testing.T, op openapi.Operation, w *httptest.ResponseRecorder) {
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

// Responses of success and of every kind of error match the contract.
func TestResponsesConform(t *testing.T) {
	t.Parallel()

	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/x-asciicast", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/octet-stream", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/problem+json", openapi3filter.JSONBodyDecoder)
	forEach(t, func(t *testing.T, b *fixture, op openapi.Operation) {
		path, token, body := b.freshPathOf(t, op), tokenFor(op), bodyOf(t, op)
		if strings.Contains(op.Path, "{own_invitation_id}") {
			token = newcomer(op)
		}
		w := b.do(t, call{method: op.Method, path: path, token: token, body: body, header: headersOf(op)})
		if w.Code >= http.StatusBadRequest && op.OperationID != "followEvents" { // a handshake needs a connection: websocket_test.go
			t.Errorf("answers %d: %s", w.Code, w.Body)
		}
		b.conforms(t, op, w)
		b.named(t, op, w)
		if op.Security == nil {
			b.conforms(t, op, b.do(t, call{method: op.Method, path: path, body: body}))
		}
		b.conforms(t, op, b.do(t, call{method: op.Method, path: join(path, "nonsense=1"), token: token, body: body, header: map[string]string{"Accept": "application/problem+json"}}))
	})
}

// Every operation's bad body is a 400 that names the field; so are a parameter
// that is unknown, and a body where none is accepted.
func TestBadInputNamesTheField(t *testing.T) {
	t.Parallel()

	forEach(t, func(t *testing.T, b *fixture, op openapi.Operation) {
		path, token, good := pathOf(op), tokenFor(op), bodyOf(t, op)
		expect := func(a call, code oapi.ErrorCode, field string) {
			t.Helper()
			a.method, a.token = op.Method, token
			w := b.do(t, a)
			p := problem(t, w)
			if w.Code != http.StatusBadRequest || p.Code != code || p.Details["field"] != field {
				t.Errorf("%s: got %d %s at %v: %s; want 400 %s at %s", a.body, w.Code, p.Code, p.Details["field"], p.Message, code, field)
			}
			b.conforms(t, op, w)
		}
		expect(call{path: join(path, "nonsense=1"), body: good}, oapi.ErrorCodeUnknownParameter, "nonsense")
		if op.RequestBody == nil {
			expect(call{path: path, body: `{"x":1}`}, oapi.ErrorCodeValidationError, "body")
			return
		}
		if op.Extensions["x-stream"] != nil { // any bytes are a file
			return
		}
		if op.Extensions["x-signed"] != nil { // its schema is that of the signer
			expect(call{path: path}, oapi.ErrorCodeValidationError, "body")
			return
		}
		expect(call{path: path, body: `{"sku":`}, oapi.ErrorCodeValidationError, "body")
		expect(call{path: path, body: good + good}, oapi.ErrorCodeValidationError, "body")
		expect(call{path: path, body: `[]`}, oapi.ErrorCodeValidationError, "body")
		schema := op.RequestBody.Value.Content["application/json"].Schema.Value
		if op.RequestBody.Value.Required {
			expect(call{path: path}, oapi.ErrorCodeValidationError, "body")
		}
		for what, bad := range broken(t, schema, good) {
			expect(call{path: path, body: bad}, oapi.ErrorCodeValidationError, what)
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

// Beyond types: the limits of each field of a request.
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
			w := b.do(t, call{method: "POST", path: "/api/v1/allocations", token: tokenOwner, body: c.body})
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
			w := b.do(t, call{method: "GET", path: c.path, token: token})
			if p := problem(t, w); w.Code != http.StatusBadRequest || p.Code != oapi.ErrorCodeValidationError || p.Details["field"] != c.field {
				t.Errorf("got %d %s at %v: %s", w.Code, p.Code, p.Details["field"], p.Message)
			} else if strings.Contains(p.Message, "schema") || strings.Contains(p.Message, "unmarshal") {
				t.Errorf("speaks of how it was found: %q", p.Message)
			}
		})
	}
}

// publicKey is a new SSH key.
func publicKey(t testing.TB) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	key, err := ssh.NewPublicKey(public)
	must(t, err)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// webhook stores a webhook of the project with a delivery. Its receiver is a closed port of this computer.
func (b *fixture) webhook() (id, delivery string) {
	b.Helper()
	hook := ids.New[ids.Webhook]()
	sealed := identitytest.Seal(b).Seal(make([]byte, 24), envelope.Place{Table: "webhook_endpoints", Column: "secret_enc", Row: hook.String()})
	id = read[string](b, `INSERT INTO webhook_endpoints (id, org_id, project_id, name, url, patterns, format, signature, secret_enc, created_by)
		VALUES ($1::uuid, $2, $3, 'w-' || right($1::uuid::text, 12), 'http://127.0.0.1:1/', '{billing.*}', 'standard', 'v1', $4, 'u') RETURNING id::text`, hook, tenant, project, sealed)
	delivery = read[string](b, `INSERT INTO webhook_deliveries (id, endpoint_id, org_id, project_id, event_id, event_type, body, status)
		VALUES (gen_random_uuid(), $1, $2, $3, gen_random_uuid(), 'billing.refunded', '{}', 'failed') RETURNING id::text`, hook, tenant, project)
	return id, delivery
}
