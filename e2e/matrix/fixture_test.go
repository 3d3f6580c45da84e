package matrix_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/server"
)

const (
	region = "eu-test-1"
	sku    = "t4"
	node   = "n1"
	gpus   = 6000
)

// side is one of the two tenants with an object of every kind that has an owner.
type side struct {
	name    string
	tenant  uuid.UUID
	project uuid.UUID // the project of the roles in projects
	other   uuid.UUID // another project of it, without members
	owner   *actor
	objects map[string]string // an object by the name of its id in the contract
}

// actor is a caller: with a right token, with a wrong one, or none.
type actor struct {
	name  string
	side  *side // nil: of no tenant
	user  uuid.UUID
	token string
	// cookie: the token is a browser's session.
	cookie bool
	// rejection is the code for its token, wherever a token is needed.
	rejection string
	// roles of policies/roles.cue that the person has, in the project of their side
	// as well.
	roles []string
	// program: bound by its scopes alone; limited: by its roles and its scopes.
	program, limited bool
	scopes           []string
}

func (a *actor) header() http.Header {
	h := http.Header{}
	switch {
	case a.cookie:
		h.Set("Cookie", "gpuaas_session="+a.token)
	case a.token != "":
		h.Set("Authorization", "Bearer "+a.token)
	}
	return h
}

func (a *actor) hasRole(role string) bool { return slices.Contains(a.roles, role) }

// declaredRole is a role that a Role object declares, with its operations.
const declaredRole = "night-watch"

var declaredOperations = []string{"listAdminNodes", "getAdminNode", "cordonNode", "listTenants", "getTenantByID", "listLedger", "getAllocation", "listAllocations"}

// allows is the table of a server with the declared role.
func allows(role, operation string) bool {
	if role == declaredRole {
		return slices.Contains(declaredOperations, operation)
	}
	return policies.Allows(role, operation)
}

// operates reports whether the actor has a role of the platform.
func (a *actor) operates() bool {
	return a.hasRole(declaredRole) || a.hasRole("admin") || a.hasRole("operator") || a.hasRole("billing_operator")
}

// fixture is everybody and everything that the matrix knows.
type fixture struct {
	*installation

	a, b     *side
	actors   []*actor
	admin    *actor
	operator *actor
	provider *provider
	counts   map[string]int // answers of the fuzzer by status
	// fingerprint is that of the hardware of every node here.
	fingerprint string
	made        int
}

// newFixture starts an installation with all callers.
func newFixture(t testing.TB, prepare ...func(*installation)) *fixture {
	t.Helper()
	p := newProvider(t)
	w := &fixture{installation: open(t, func(h *installation, c *server.Config) {
		p.through(h, c)
		takeMoney(t, c)
		for _, change := range prepare {
			change(h)
		}
	}), provider: p, counts: map[string]int{}}
	w.a, w.b = w.newSide("alpha"), w.newSide("beta")
	w.fleet()
	w.declare()
	w.people()
	w.programs()
	w.strangers()
	w.awaitPolicies()
	return w
}

// awaitPolicies waits until the server has read the policies of both sides, which it does every few seconds.
func (w *fixture) awaitPolicies() {
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		got := w.send(request{http.MethodPost, "/api/v1/payments/auto-topups", w.b.owner.header(), nil})
		if got.status == http.StatusCreated {
			return
		}
		if time.Now().After(until) {
			w.Fatalf("the policies are not in effect: %d %s", got.status, got.body)
		}
	}
}

func (w *fixture) unique(prefix string) string {
	w.made++
	return fmt.Sprintf("%s-%d", prefix, w.made)
}

func id() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func (w *fixture) newSide(name string) *side {
	s := &side{name: name, tenant: id(), objects: map[string]string{}}
	w.sql(`INSERT INTO tenants (id, name) VALUES ($1, $2)`, s.tenant, name)
	s.project, s.other = w.newProject(s), w.newProject(s)
	w.policy("payment.auto_topup_enabled", "tenant:"+s.tenant.String(), "true")
	w.policy("notification.webhook_endpoints", "tenant:"+s.tenant.String(), "100")
	account := queryOne[uuid.UUID](w.installation, `SELECT ledger_ensure_accounts($1, 'EUR')`, s.tenant)
	for _, m := range []struct {
		kind, from string
		amount     int64
	}{{"topup", "clearing", 1_000_000}, {"usage", "revenue", -1_000_000}, {"test_credit", "promotions", 100_000_000}} { // paid charges, so that some can be refunded
		w.sql(`WITH t AS (INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor) VALUES ($1, $2, $3, $5, $7) RETURNING id)
			INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency)
			SELECT t.id, e.account, e.amount, 'EUR' FROM t, (VALUES ($4::uuid, $7::bigint),
				((SELECT id FROM ledger_accounts WHERE org_id IS NULL AND name = $6 AND currency = 'EUR'), -$7)) AS e (account, amount)`,
			id(), m.kind, name, account, s.tenant, m.from, m.amount)
	}
	return s
}

func (w *fixture) newProject(s *side) uuid.UUID {
	p := id()
	w.sql(`INSERT INTO projects (id, org_id, name) VALUES ($1, $2, $3)`, p, s.tenant, w.unique("project"))
	return p
}

// fleet is one node with enough GPUs for every cell, a plan and declarations.
func (w *fixture) fleet() {
	n := id()
	w.sql(`INSERT INTO sku_catalog (id, name, spec)
		VALUES ($1, $2, '{"displayName": "T4", "gpuModel": "Tesla T4", "memoryGiB": 16, "isolation": "host_user", "maxGPUs": 4, "active": true}')`, id(), sku)
	w.sql(`INSERT INTO sku_prices (sku, currency, amount_minor) VALUES ($1, 'EUR', 35)`, sku)
	w.sql(`INSERT INTO nodes (id, name, spec, lifecycle, health, reachability, mounts_missing)
		VALUES ($1, $2, jsonb_build_object('sku', $3::text, 'region', $4::text, 'onboarding', 'simulated', 'gpus', $5::int), 'active', 'healthy', 'reachable', '')`, n, node, sku, region, gpus)
	w.sql(`INSERT INTO gpus (uuid, node_id, index, model, memory_mib, health)
		SELECT 'GPU-' || i, $1, i, 'Tesla T4', 16384, 'healthy' FROM generate_series(1, $2::int) AS i`, n, gpus)
	w.sql(`INSERT INTO slots (id, node_id, gpu_uuid, sku, region, status)
		SELECT gen_random_uuid(), $1, 'GPU-' || i, $3, $4, 'clean' FROM generate_series(1, $2::int) AS i`, n, gpus, sku, region)
	w.sql(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner) VALUES ($1, 'Node', $2, '{}', 'x', 'api')`, n, node)
	plan := id()
	w.sql(`INSERT INTO plans (id, hash, actions) VALUES ($1, 'x', 0)`, plan)
	w.a.objects["PlanID"], w.b.objects["PlanID"] = plan.String(), plan.String()
}

// people are one of every role that policies know, on both sides.
func (w *fixture) people() {
	for _, r := range policies.Roles() {
		switch r.Scope {
		case "platform":
			if r.Name != "anonymous" && r.Name != "user" {
				switch a := w.newActor(r.Name, nil, r.Name); r.Name {
				case "admin":
					w.admin = a
				case "operator":
					w.operator = a
				}
			}
		case "tenant", "project":
			for _, s := range []*side{w.a, w.b} {
				a := w.newActor(s.name+" "+r.Name, s, r.Name)
				if r.Name == "tenant.owner" {
					s.owner = a
				}
			}
		}
	}
	w.newActor(declaredRole, nil, declaredRole)
	w.newActor("nobody's", nil)
	for _, s := range []*side{w.a, w.b} {
		w.createShared(s)
	}
	w.withSession(w.newActor("alpha owner's browser", w.a, "tenant.owner"))
	w.withProvider(w.newActor("alpha owner through the provider", w.a, "tenant.owner"), audience, 0)
	for _, scope := range []string{"allocations:read", "allocations:write", "billing:read"} {
		w.limit(w.newActor("alpha owner's key for "+scope, w.a, "tenant.owner"), scope)
	}
	w.limit(w.newActor("admin's key for allocations:read", nil, "admin"), "allocations:read")
}

// limit bounds what the actor's key may do.
func (w *fixture) limit(a *actor, scope string) {
	a.limited, a.scopes = true, []string{scope}
	w.sql(`UPDATE api_keys SET scopes = $2 WHERE user_id = $1`, a.user, a.scopes)
}

// newActor creates a user with a key. A role in the project implies the least role in the tenant.
func (w *fixture) newActor(name string, s *side, roles ...string) *actor {
	a := &actor{name: name, side: s, user: id(), roles: append([]string{"anonymous", "user"}, roles...)}
	platform, tenant, project := "user", "", ""
	for _, r := range roles {
		scope, word, scoped := strings.Cut(r, ".")
		switch {
		case !scoped:
			platform = r
		case scope == "tenant":
			tenant = word
		default:
			tenant, project = "member", word
			a.roles = append(a.roles, "tenant.member")
		}
	}
	w.sql(`INSERT INTO users (id, oidc_subject, email, name, role) VALUES ($1, $2, $2, $3, $4)`,
		a.user, w.unique("person")+"@example.org", name, platform)
	if s != nil {
		w.sql(`INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, $3)`, s.tenant, a.user, tenant)
	}
	if project != "" {
		w.join(s.project, a, project)
	}
	token, hash := secret("gpk_")
	a.token = token
	w.sql(`INSERT INTO api_keys (id, user_id, name, secret_hash) VALUES ($1, $2, 'matrix', $3)`, id(), a.user, hash)
	w.actors = append(w.actors, a)
	return a
}

func (w *fixture) join(project uuid.UUID, a *actor, role string) {
	w.sql(`INSERT INTO project_memberships (project_id, user_id, role) VALUES ($1, $2, $3)`, project, a.user, role)
}

func (w *fixture) withSession(a *actor) {
	token, hash := secret("gpb_")
	w.sql(`INSERT INTO sessions (id, user_id, secret_hash, expires_at) VALUES ($1, $2, $3, now() + interval '1 hour')`, id(), a.user, hash)
	a.token, a.cookie = token, true
}

// withProvider gives the actor a token of the OpenID provider.
func (w *fixture) withProvider(a *actor, audience string, ago time.Duration) {
	subject := queryOne[string](w.installation, `UPDATE users SET oidc_issuer = $2 WHERE id = $1 RETURNING oidc_subject`, a.user, w.provider.url)
	a.token = w.provider.token(w, subject, audience, ago)
}

// renew gives the actor another token of the same kind.
func (w *fixture) renew(a *actor) {
	switch {
	case a.rejection != "" || a.program: // has no other, or cannot end it
	case a.cookie:
		w.withSession(a)
	case strings.HasPrefix(a.token, "gpk_") && !a.limited: // a changed password ends it
		token, hash := secret("gpk_")
		w.sql(`INSERT INTO api_keys (id, user_id, name, secret_hash) VALUES ($1, $2, $3, $4)`, id(), a.user, w.unique("key"), hash)
		a.token = token
	case strings.HasPrefix(a.token, "ey"):
		w.made++
		w.withProvider(a, audience, time.Duration(w.made%200)*time.Second)
	}
}

// programs are service accounts with a token that the API has minted: one for
// every scope that allows anything, and one whose scope allows nothing.
func (w *fixture) programs() {
	for _, r := range policies.Roles() {
		if r.Scope != "token" || len(r.Operations) == 0 && r.Name != "apps:read" {
			continue
		}
		for _, s := range []*side{w.a, w.b} {
			a := &actor{name: s.name + " program for " + r.Name, side: s, program: true, scopes: []string{r.Name}, user: id()}
			w.sql(`INSERT INTO service_accounts (id, org_id, project_id, name, scopes, created_by) VALUES ($1, $2, $3, $4, $5, $6)`,
				a.user, s.tenant, s.project, w.unique("program"), a.scopes, s.owner.user)
			opens, hash := secret("gps_")
			w.sql(`INSERT INTO service_account_credentials (id, service_account_id, org_id, secret_hash) VALUES ($1, $2, $3, $4)`, id(), a.user, s.tenant, hash)
			got := w.send(request{http.MethodPost, "/api/v1/service-accounts/token", nil, []byte(`{"secret":"` + opens + `"}`)})
			if a.token = field(got.body, "access_token"); a.token == "" {
				w.Fatalf("minting: %d %s", got.status, got.body)
			}
			w.actors = append(w.actors, a)
		}
	}
}

// strangers have a token that is not, or no longer, one of this API.
func (w *fixture) strangers() {
	w.actors = append(w.actors, &actor{name: "anonymous", rejection: "token_missing"})
	wrong := func(name, code, change string) {
		a := w.newActor(name, w.a, "tenant.owner")
		a.rejection = code
		if change != "" {
			w.sql(change, a.user)
		}
	}
	wrong("an expired key", "token_expired", `UPDATE api_keys SET expires_at = now() - interval '1 minute' WHERE user_id = $1`)
	wrong("a revoked key", "token_invalid", `UPDATE api_keys SET revoked_at = now() WHERE user_id = $1`)
	wrong("a disabled person", "token_invalid", `UPDATE users SET disabled_at = now() WHERE id = $1`)
	ended := w.newActor("an ended session", w.a, "tenant.owner")
	w.withSession(ended)
	w.sql(`UPDATE sessions SET ended_at = now() WHERE user_id = $1`, ended.user)
	ended.rejection = "token_invalid"

	for name, c := range map[string]struct {
		audience string
		ago      time.Duration
		code     string
	}{
		"an expired token":         {audience, time.Hour, "token_expired"},
		"a token for someone else": {"another-api", 0, "token_invalid"},
	} {
		a := w.newActor(name, w.a, "tenant.owner")
		w.withProvider(a, c.audience, c.ago)
		a.rejection = c.code
	}
	token, hash := secret("gpe_")
	w.sql(`INSERT INTO enrolment_tokens (secret_hash, node_id, expires_at) SELECT $1, id, now() + interval '1 hour' FROM nodes WHERE name = $2`, hash, node)
	w.actors = append(w.actors, &actor{name: "a node's enrolment token", token: token, rejection: "token_invalid"})
}

// createShared creates the objects of a side that no cell consumes.
func (w *fixture) createShared(s *side) {
	s.objects["ProjectPath"], s.objects["ProjectHeader"] = s.project.String(), s.project.String()
	s.objects["TenantID"] = s.tenant.String()
	for _, kind := range []string{"ServiceAccountID", "UserID", "InvitationID", "OwnInvitationID", "AllocationID", "SshKeyID", "SessionID", "ApiKeyID", "CredentialID", "PaymentSessionID", "AutoTopupID", "NotificationID", "WebhookID", "WebhookDeliveryID", "TerminalSessionID", "TerminalRecordingID", "EvidenceID", "StorageObjectID", "StorageUploadID", "StorageKeyID"} {
		s.objects[kind] = w.fresh(kind, s, s.owner)
	}
	w.shareFile(s)
	w.sql(`INSERT INTO release_proofs (allocation_id, proof) VALUES ($1, '{}')`, s.objects["AllocationID"])
	w.pay(s.objects["PaymentSessionID"])
}

// global are the names that no tenant owns.
var global = map[string]string{
	"SkuName": sku, "NodeName": node, "GpuUUID": "GPU-" + node, "KindName": "Node", "ObjectName": node, "RunbookName": "node-silent", "Month": time.Now().UTC().Format("2006-01"), "StoragePartNumber": "1",
	"ConsumerName": consumerName, "GitSourceName": source, "HookSource": source, "PolicyName": key, "RevisionNumber": "1",
}

// unguessed are names that are no ids: no object can be recognised by them.
var unguessed = map[string]bool{"KindName": true, "Month": true, "RevisionNumber": true, "StoragePartNumber": true}

// personal are the objects that only their user can read.
var personal = map[string]bool{"SshKeyID": true, "SessionID": true, "ApiKeyID": true, "OwnInvitationID": true, "NotificationID": true}

// fresh makes an object for one cell. Who makes it belongs to the side, or is an
// operator who belongs to none.
func (w *fixture) fresh(kind string, s *side, by *actor) string {
	made := id()
	if by.program && kind != "SshKeyID" && kind != "TerminalSessionID" {
		by = s.owner // a program has no sessions and no keys of its own
	}
	switch kind {
	case "ObjectName":
		return w.object()
	case "NodeName":
		name, _ := w.machine()
		return name
	case "SlotID":
		_, slot := w.machine()
		return slot
	case "PlanID":
		return w.plan(by)
	case "FaultReportID":
		return w.faultReport(s)
	case "DriftID":
		return w.drift()
	case "DeadLetterID":
		return w.deadLetter()
	case "SuppressedAddressID":
		return w.suppressed()
	case "NotificationID":
		return w.notification(s, by.user)
	case "AllocationID":
		return w.allocate(s)
	case "PaymentSessionID":
		return w.checkout(s)
	case "AutoTopupID": // with a stored card; a tenant has one that is not confirmed
		w.sql(`UPDATE payment_mandates SET status = 'ended' WHERE org_id = $1`, s.tenant)
		w.sql(`INSERT INTO payment_mandates (id, org_id, principal, status, customer, livemode, currency, payment_method)
			VALUES ($1, $2, $3, 'unconfirmed', 'cus_1', false, 'EUR', 'pm_1')`, made, s.tenant, s.owner.user)
	case "ProjectPath":
		made = w.newProject(s)
		for _, r := range by.roles {
			if word, ok := strings.CutPrefix(r, "project."); ok {
				w.join(made, by, word)
			}
		}
	case "TenantID":
		w.sql(`INSERT INTO tenants (id, name) VALUES ($1, $2)`, made, w.unique("tenant"))
	case "UserID":
		w.sql(`INSERT INTO users (id, oidc_subject, email, name, role) VALUES ($1, $2, $2, 'Fresh', 'user')`, made, w.unique("fresh")+"@example.org")
		w.sql(`INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, 'member')`, s.tenant, made)
		w.sql(`INSERT INTO project_memberships (project_id, user_id, role) VALUES ($1, $2, 'viewer')`, s.project, made)
	case "InvitationID":
		w.sql(`INSERT INTO invitations (id, org_id, email, role, invited_by, expires_at) VALUES ($1, $2, $3, 'member', $4, now() + interval '1 day')`,
			made, s.tenant, w.unique("invited")+"@example.org", s.owner.user)
	case "OwnInvitationID": // one that has expired: an accepted one would move the actor to another tenant
		w.sql(`UPDATE invitations SET revoked_at = now() WHERE org_id = $1 AND lower(email) = (SELECT lower(email) FROM users WHERE id = $2)`, s.tenant, by.user)
		w.sql(`INSERT INTO invitations (id, org_id, email, role, invited_by, expires_at) SELECT $1, $2, email, 'member', $3, now() - interval '1 day' FROM users WHERE id = $4`,
			made, s.tenant, s.owner.user, by.user)
	case "ServiceAccountID":
		w.sql(`INSERT INTO service_accounts (id, org_id, project_id, name, scopes, created_by) VALUES ($1, $2, $3, $4, '{allocations:read}', $5)`,
			made, s.tenant, s.project, w.unique("robot"), s.owner.user)
	case "CredentialID":
		_, hash := secret("gps_")
		w.sql(`INSERT INTO service_account_credentials (id, service_account_id, org_id, secret_hash) VALUES ($1, $2, $3, $4)`,
			made, s.objects["ServiceAccountID"], s.tenant, hash)
	case "WebhookID":
		return w.webhook(s)
	case "WebhookDeliveryID":
		w.sql(`INSERT INTO webhook_deliveries (id, endpoint_id, org_id, project_id, event_id, event_type, body, status) VALUES ($1, $2, $3, $4, $5, 'billing.refunded', '{}', 'failed')`,
			made, s.objects["WebhookID"], s.tenant, s.project, id())
	case "TerminalSessionID": // of a server that is not silent
		w.sql(`INSERT INTO terminal_instances (id, address, key, seen_at) VALUES ($1, '', '', 'infinity')`, made)
		w.sql(`INSERT INTO terminal_sessions (id, org_id, project_id, allocation_id, node_id, fence, instance_id, principal, by_program, sign_in_id, scopes, limited, purpose,
				address, user_agent, correlation_id)
			SELECT $1, org_id, project_id, id, $1, 1, $1, $2, false, $1, '{}', false, 'shell', '', '', '' FROM allocations WHERE id = $3`, made, by.user, s.objects["AllocationID"])
	case "TerminalRecordingID":
		w.sql(`INSERT INTO terminal_recordings (id, org_id, project_id, allocation_id, principal, required, columns, rows, key_enc, correlation_id)
			SELECT $1, org_id, project_id, id, $2, true, 80, 24, $3, '' FROM allocations WHERE id = $4`, made, by.user, w.recordingKey(made), s.objects["AllocationID"])
	case "EvidenceID": // one that is not signed yet
		w.sql(`INSERT INTO evidence_bundles (id, org_id, kind, about, subject, cause, requested_by) VALUES ($1::uuid, $2, 'allocation', 'a', $3, $1::uuid::text, 'u')`,
			made, s.tenant, s.objects["AllocationID"])
	case "StorageObjectID": // a deleted one
		w.deletedFile(s, made)
	case "StorageKeyID":
		w.sql(`INSERT INTO storage_access_keys (id, org_id, project_id, access_key_id, secret_enc, name, read_only, creator, created_by) VALUES ($1::uuid, $2, $3, $1::uuid::text, '', 'fresh', true, '{}', 'u')`,
			made, s.tenant, s.project)
	case "StorageUploadID":
		return w.startedUpload(s)
	case "SshKeyID":
		line, mark := publicKey()
		w.sql(`INSERT INTO ssh_keys (id, user_id, name, public_key, fingerprint) VALUES ($1, $2, $3, $4, $5)`, made, by.user, w.unique("key"), line, mark)
	case "SessionID":
		_, hash := secret("gpb_")
		w.sql(`INSERT INTO sessions (id, user_id, secret_hash, expires_at) VALUES ($1, $2, $3, now() + interval '1 hour')`, made, by.user, hash)
	case "ApiKeyID":
		_, hash := secret("gpk_")
		w.sql(`INSERT INTO api_keys (id, user_id, name, secret_hash) VALUES ($1, $2, $3, $4)`, made, by.user, w.unique("key"), hash)
	default:
		w.Fatalf("the matrix knows nothing with the id %s: teach it in fresh", kind)
	}
	return made.String()
}

func publicKey() (line, fingerprint string) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), ssh.FingerprintSHA256(key)
}

// allocate creates an allocation, as the side's owner.
func (w *fixture) allocate(s *side) string {
	// A request before may have confirmed a fault of the node, or have made it unreachable.
	w.sql(`UPDATE nodes SET health = 'healthy', reachability = 'reachable' WHERE name = 'n1'`)
	w.sql(`UPDATE slots SET held_until = NULL WHERE held_until IS NOT NULL`)
	h := s.owner.header()
	h.Set("X-Project-ID", s.project.String())
	got := w.send(request{http.MethodPost, "/api/v1/allocations", h, []byte(`{"sku":"` + sku + `","name":"` + w.unique("alloc") + `"}`)})
	if got.status != http.StatusCreated {
		w.Fatalf("allocating: %d %s", got.status, got.body)
	}
	return field(got.body, "id")
}
