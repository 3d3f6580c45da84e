package removal_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/autotopup"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/product/removal"
	"github.com/gpuaas/gpuaas/product/storage"
)

const (
	mail = "pat.person@example.org"
	name = "Pat Person"
)

type fixture struct {
	*allocationtest.Fixture
	*removal.Service

	admin identity.Caller
	audit *audit.Service
}

// setup returns the service with the database role of the API.
func setup(t *testing.T) *fixture {
	t.Helper()
	w := allocationtest.New(t, 1_000_000)
	api := pgtest.Scoped(t, w.DB)
	who := &identity.Service{DB: api, Naming: ids.DefaultNaming}
	f := &fixture{Fixture: w, audit: &audit.Service{DB: w.DB}}
	f.Service = &removal.Service{
		Identity: who, Allocations: w.Allocations, Ledger: w.Ledger, Metering: &metering.Service{DB: api}, Payments: &payment.Service{DB: api},
		Storage: &storage.Service{DB: api}, AutoTopups: autotopup.New(&payment.Service{DB: api, Naming: ids.DefaultNaming}),
	}
	f.exec(t, `UPDATE users SET role = 'admin' WHERE id = $1`, w.Operator.User)
	f.admin = identity.Caller{User: w.Operator.User, Role: "admin", SignIn: identity.SignIn{At: time.Now()}}
	return f
}

func (f *fixture) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := f.DB.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// person makes a user with all kinds of personal data and credentials, who signs in at a provider.
func (f *fixture) person(t *testing.T, tenant ids.Tenant, role string) ids.User {
	t.Helper()
	ctx := pg.WithScope(t.Context(), pg.Platform)
	u, err := f.Identity.CreateUser(ctx, identitytest.Change[identity.User](f.admin), identity.NewUser{Email: mail, Name: name, Role: "user", Tenant: tenant, TenantRole: role})
	if err != nil {
		t.Fatal(err)
	}
	s := &signin.Service{Service: f.Identity}
	v := signin.Verified{Issuer: "https://id.example", Subject: "sub-" + mail, Email: mail, EmailVerified: true, Name: name}
	from := signin.Origin{Address: "192.0.2.7", UserAgent: "Firefox of " + name}
	if _, err := s.SignInSession(ctx, v, signin.NewSession{Kind: "browser", Origin: from}); err != nil {
		t.Fatal(err)
	}
	// The user agent of the sign-in is on record in the audit log; here it would hide what should be found.
	f.exec(t, `INSERT INTO api_keys (id, user_id, name, secret_hash) VALUES ($1, $2, $3, uuid_send($1))`, ids.New[ids.APIKey](), u.ID, "key of "+name)
	f.exec(t, `INSERT INTO ssh_keys (id, user_id, name, public_key, fingerprint) VALUES ($1, $2, $3, 'ssh-ed25519 AAAA', 'SHA256:x')`, ids.New[ids.SSHKey](), u.ID, name)
	f.exec(t, `INSERT INTO user_passwords (user_id, hash) VALUES ($1, 'x')`, u.ID)
	f.exec(t, `INSERT INTO invitations (id, org_id, email, role, invited_by, expires_at) VALUES ($1, $2, $3, 'viewer', $4, now() + interval '1 day')`,
		ids.New[ids.Invitation](), f.Caller.Tenant, "Pat.Person@example.org", f.Caller.User)
	return u.ID
}

// traces lists the tables with a row that contains personal data. The audit log contains the user agent.
func (f *fixture) traces(t *testing.T) (found []string) {
	t.Helper()
	rows, err := f.DB.Query(t.Context(), `SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
		UNION ALL SELECT 'audit_logs'`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		var n int
		err := f.DB.QueryRow(t.Context(), fmt.Sprintf(`SELECT count(*) FROM %s AS r WHERE (to_jsonb(r) - 'user_agent')::text ~* 'pat.person'`, table)).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			found = append(found, fmt.Sprintf("%s: %d", table, n))
		}
	}
	return found
}

func (f *fixture) verified(t *testing.T, when string) {
	t.Helper()
	if err := f.audit.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := f.audit.Verify(t.Context(), ids.Tenant{}, nil); err != nil || !r.OK() {
		t.Errorf("%s the audit log is broken: %+v, %v", when, r, err)
	}
}

func details(err error) map[string]any {
	e, _ := errors.AsType[*errs.Error](err)
	if e == nil {
		return nil
	}
	return e.Details
}

// A deleted user has nothing that works, and no name or address stays in any table, while the sealed audit log
// is verified as before.
func TestADeletedUserLeavesAPseudonym(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := pg.WithScope(t.Context(), pg.Platform)
	remove := func(id ids.User) error {
		return f.DeleteUser(ctx, identitytest.Change[struct{}](f.admin), id, 0)
	}
	identitytest.WantCode(t, "the own account", remove(f.admin.User), errs.Conflict)
	f.exec(t, `UPDATE tenant_memberships SET role = 'owner' WHERE user_id = $1`, f.Caller.User)
	f.exec(t, `UPDATE tenant_memberships SET role = 'viewer' WHERE user_id <> $1`, f.Caller.User)
	identitytest.WantCode(t, "the last owner", remove(f.Caller.User), errs.Conflict)
	f.exec(t, `UPDATE tenant_memberships SET role = 'owner' WHERE user_id = $1`, f.Operator.User)
	f.Node(t, "node-1", 2)
	f.Active(t, 1)
	err := remove(f.Caller.User)
	identitytest.WantCode(t, "the owner of a live allocation", err, errs.Conflict)
	if details(err)["allocations"] != 1 {
		t.Errorf("%v %v", err, details(err))
	}

	id := f.person(t, f.Caller.Tenant, "member")
	f.verified(t, "before")
	if len(f.traces(t)) < 4 {
		t.Fatalf("the fixture has personal data only in %v", f.traces(t))
	}
	if err := remove(id); err != nil {
		t.Fatal(err)
	}
	if left := f.traces(t); len(left) > 0 {
		t.Errorf("personal data is left in %v", left)
	}
	f.verified(t, "afterwards")
	identitytest.WantCode(t, "once more", remove(id), errs.NotFound)
	var works int
	err = f.DB.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM sessions WHERE user_id = $1 AND ended_at IS NULL) + (SELECT count(*) FROM api_keys WHERE user_id = $1 AND revoked_at IS NULL)
		+ (SELECT count(*) FROM ssh_keys WHERE user_id = $1) + (SELECT count(*) FROM user_passwords WHERE user_id = $1)
		+ (SELECT count(*) FROM tenant_memberships WHERE user_id = $1) + (SELECT count(*) FROM users WHERE id = $1 AND disabled_at IS NULL)`, id).Scan(&works)
	if err != nil || works != 0 {
		t.Errorf("%d credentials or memberships work, %v", works, err)
	}
	if again := f.person(t, ids.Tenant{}, ""); again == id {
		t.Error("a later sign-in with the address gets the deleted user")
	}
}

// A tenant is deleted when nothing runs and nothing is owed, with its members, and under a pseudonym.
func TestATenantIsDeletedWhenNothingRemains(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := pg.WithScope(t.Context(), pg.Platform)
	remove := func(id ids.Tenant) error {
		return f.DeleteTenant(ctx, identitytest.Change[struct{}](f.admin), id, 0)
	}
	f.Node(t, "node-1", 2)
	f.Active(t, 1)
	err := remove(f.Caller.Tenant)
	identitytest.WantCode(t, "a tenant with a live allocation", err, errs.TenantNotEmpty)
	if d := details(err); d["allocations"] != 1 || d["balance_minor"] == nil || d["uncharged_use"] != true {
		t.Errorf("what remains: %v", d)
	}

	other, err := f.Identity.CreateTenant(ctx, identitytest.Change[identity.Tenant](f.admin), "pat-person-lab", "EUR")
	if err != nil {
		t.Fatal(err)
	}
	member, staff := f.person(t, other.ID, "owner"), ids.New[ids.User]()
	f.exec(t, `INSERT INTO users (id, oidc_subject, email, name, role) VALUES ($1, 's', 's@dev.localhost', 'Staff', 'operator')`, staff)
	f.exec(t, `INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, 'viewer')`, other.ID, staff)
	// Undecided refunds and disputes are found behind any number of decided ones.
	f.exec(t, `INSERT INTO payment_sessions (id, org_id, principal, amount_minor, currency, status, livemode, expires_at)
		SELECT '00000000-0000-7000-8000-000000000001', $1, $2, 100, 'EUR', 'credited', false, now()`, other.ID, member)
	f.exec(t, `INSERT INTO stripe_payments (payment, session_id, org_id, amount_minor, currency, transfer_id)
		VALUES ('pi_1', '00000000-0000-7000-8000-000000000001', $1, 100, 'EUR', gen_random_uuid())`, other.ID)
	f.exec(t, `INSERT INTO payment_disputes (id, payment, org_id, amount_minor, currency, stage, transfer_id, created_at)
		SELECT 'dp_' || n, 'pi_1', $1, 1, 'EUR', CASE n WHEN 0 THEN 'open' ELSE 'won' END, gen_random_uuid(), now() + n * interval '1 second'
		FROM generate_series(0, 250) AS n`, other.ID)
	f.exec(t, `INSERT INTO refund_requests (id, org_id, user_id, requested_by, kind, route, amount_minor, currency, reason, status, transfer_id)
		SELECT lpad(n::text, 32, '0')::uuid, $1, $2, 'a', 'unspent', 'ledger', 1, 'EUR', '', CASE n WHEN 0 THEN 'requested' ELSE 'failed' END, gen_random_uuid()
		FROM generate_series(0, 250) AS n`, other.ID, member)
	err = remove(other.ID)
	identitytest.WantCode(t, "a tenant with an undecided refund and an open dispute", err, errs.TenantNotEmpty)
	if d := details(err); d["pending_refunds"] != true || d["open_disputes"] != true {
		t.Errorf("what remains: %v", d)
	}
	f.exec(t, `UPDATE refund_requests SET status = 'failed'`)
	f.exec(t, `UPDATE payment_disputes SET stage = 'won'`)
	// An automatic top-up ends with its tenant, but not while a charge has no result.
	f.exec(t, `INSERT INTO payment_mandates (id, org_id, principal, status, customer, livemode, currency, payment_method, threshold_minor, amount_minor, monthly_cap_minor, confirmed_at)
		VALUES ('00000000-0000-7000-8000-000000000002', $1, $2, 'active', 'cus_1', false, 'EUR', 'pm_1', 100, 100, 100, now())`, other.ID, member)
	f.exec(t, `INSERT INTO payment_sessions (id, org_id, principal, amount_minor, currency, status, livemode, expires_at, mandate_id, charge_month, charge_number)
		SELECT '00000000-0000-7000-8000-000000000003', org_id, principal, 100, 'EUR', 'initiated', false, now(), id, '2026-01-01', 1 FROM payment_mandates`)
	err = remove(other.ID)
	identitytest.WantCode(t, "a tenant with a charge without a result", err, errs.TenantNotEmpty)
	if d := details(err); d["pending_payments_minor"] == nil {
		t.Errorf("what remains: %v", d)
	}
	f.exec(t, `INSERT INTO webhook_endpoints (id, org_id, name, url, patterns, format, signature, secret_enc, created_by)
		VALUES (gen_random_uuid(), $1, $2, 'https://hooks.example.com', '{billing.*}', 'standard', 'v1', 'x', 'a')`, other.ID, name)
	f.exec(t, `UPDATE payment_sessions SET status = 'expired' WHERE mandate_id IS NOT NULL`)
	f.exec(t, `INSERT INTO storage_usage (scope_id, org_id, bytes, objects) VALUES ($1, $1, 9, 2)`, other.ID)
	err = remove(other.ID)
	identitytest.WantCode(t, "a tenant with files", err, errs.TenantNotEmpty)
	if d := details(err); d["stored_objects"] != int64(2) || d["stored_bytes"] != int64(9) {
		t.Errorf("what remains: %v", d)
	}
	f.exec(t, `UPDATE storage_usage SET bytes = 0, objects = 0`)
	if err := remove(other.ID); err != nil {
		t.Fatal(err)
	}
	var mandate string
	if err := f.DB.QueryRow(t.Context(), `SELECT status || ' ' || reason FROM payment_mandates`).Scan(&mandate); err != nil || mandate != "ended tenant_deleted" {
		t.Errorf("the mandate is %s, %v", mandate, err)
	}
	f.verified(t, "afterwards")
	for _, left := range f.traces(t) {
		if left != "audit_logs: 1" { // tenant.create names the tenant
			t.Errorf("personal data is left in %s", left)
		}
	}
	var gone, stays bool
	err = f.DB.QueryRow(t.Context(), `SELECT (SELECT deleted_at IS NOT NULL FROM users WHERE id = $1), (SELECT disabled_at IS NULL FROM users WHERE id = $2)`, member, staff).Scan(&gone, &stays)
	if err != nil || !gone || !stays {
		t.Errorf("the member is deleted: %v; the operator stays: %v; %v", gone, stays, err)
	}
	identitytest.WantCode(t, "once more", remove(other.ID), errs.NotFound)
}
