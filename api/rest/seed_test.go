package rest_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/protocol"
)

// t0 is the time of the API in tests that do not move it. The database has its own clock, so it is the
// present time.
var t0 = time.Now().UTC().Truncate(time.Second)

// The API keys of the users. The name of a user is in the key.
const (
	tokenOwner    = "gpk_owner0000000000000000000000000000000000000x"
	tokenMember   = "gpk_member000000000000000000000000000000000000x"
	tokenStranger = "gpk_stranger0000000000000000000000000000000000x" // of the tenant, in no project
	tokenOperator = "gpk_operator0000000000000000000000000000000000x"
	tokenAdmin    = "gpk_admin0000000000000000000000000000000000000x"
	tokenAlone    = "gpk_alone0000000000000000000000000000000000000x" // an administrator of no tenant
	tokenTheirs   = "gpk_theirs000000000000000000000000000000000000x" // the owner of another tenant
	tokenExpired  = "gpk_expired00000000000000000000000000000000000x"
	tokenUnknown  = "gpk_unknown00000000000000000000000000000000000x"

	// Placeholders: a request is sent with the token that setup mints for them.
	tokenProgram = "program" // of a service account, without a scope
	tokenReader  = "reader"  // of the same one, with allocations:read
)

const (
	rightPassword = "correct horse battery"
	sku           = "h100-sxm"
	region        = "eu-1"
	node          = "sim-1" // its slots are sold
	cordoned      = "n7"
	object        = "gpu-07"
	source        = "fleet"
	windowKey     = "billing.window_seconds"
	credential    = "gps_credential00000000000000000000000000000000x" // of the service account
	// price of a GPU for an hour, and what the tenant has.
	price, balance = 289, 98903
)

var (
	tenant, theirs        = ids.New[ids.Tenant](), ids.New[ids.Tenant]()
	project, theirProject = ids.New[ids.Project](), ids.New[ids.Project]()
	// formula is a closed project whose name a spreadsheet would run.
	formula      = ids.New[ids.Project]()
	robot        = ids.New[ids.ServiceAccount]()
	credentialID = ids.New[ids.Credential]()
	usedBy       = ids.New[ids.Allocation]() // an allocation of the formula project, released
	paidSession  = ids.New[ids.PaymentSession]()
	slotID       = ids.New[ids.Slot]()
	driftID      = ids.New[ids.Object]()
	planID       = ids.New[ids.Plan]()
)

// person is a user of the filled database.
type person struct {
	role, tenantRole, projectRole string
	tenant                        ids.Tenant
	project                       ids.Project
}

var people = map[string]person{
	tokenOwner:    {"user", "owner", "", tenant, project},
	tokenMember:   {"user", "member", "member", tenant, project},
	tokenStranger: {"user", "member", "", tenant, project},
	tokenOperator: {"operator", "member", "", tenant, project},
	tokenAdmin:    {"admin", "member", "", tenant, project},
	tokenAlone:    {"admin", "", "", ids.Tenant{}, ids.Project{}},
	tokenTheirs:   {"user", "owner", "", theirs, theirProject},
}

var users = func() map[string]ids.User {
	all := map[string]ids.User{}
	for token := range people {
		all[token] = ids.New[ids.User]()
	}
	return all
}()

func nameOf(token string) string { return strings.TrimRight(strings.TrimPrefix(token, "gpk_"), "0x") }

func emailOf(token string) string { return nameOf(token) + "@dev.localhost" }

func hashOf(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// filled is the database that every world clones.
var filled = pgtest.Filled{Fill: fill}

type statement struct {
	sql  string
	args []any
}

func fill(ctx context.Context, db *pgxpool.Pool) error {
	var all []statement
	add := func(sql string, args ...any) { all = append(all, statement{sql, args}) }
	fillTenants(add)
	fillFleet(add)
	fillMoney(add)
	fillDeclarations(add)
	for key, value := range map[string]string{
		"allocation.max_concurrent_per_user": "1000", "allocation.max_concurrent_per_project": "1000", "allocation.max_concurrent_per_tenant": "1000",
		"billing.hourly_spend_limit_minor": "0",
		"auth.step_up_minutes":             "0", // the users of the tests have API keys
	} {
		add(setPolicy, key, policies.Platform, value)
	}
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		for _, s := range all {
			if _, err := tx.Exec(ctx, s.sql, s.args...); err != nil {
				return fmt.Errorf("%s: %w", s.sql, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	allowed := func(identity.Caller) policies.View {
		return policies.Snapshot{}.For().With(string(policies.AuthPersonalLoginEnabled), policies.Platform, true).
			With(string(policies.AuthStepUpMinutes), policies.Platform, int64(0))
	}
	accounts := &signin.Service{Service: &identity.Service{DB: db, Hints: &hint.Bus{}, Naming: ids.DefaultNaming, Policy: allowed}}
	if err := accounts.SetPassword(ctx, identity.Caller{User: users[tokenOwner], Tenant: tenant}, "", rightPassword, false); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { // so that tests count only their own rows, of a table that is append-only
		if _, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM audit_logs`)
		return err
	})
}

const setPolicy = `WITH r AS (UPDATE policy_revision SET revision = revision + 1 RETURNING revision)
	INSERT INTO policy_values (key, scope, subject, value, revision) SELECT $1, $2, $2, $3::jsonb, revision FROM r
	ON CONFLICT (key, scope) DO UPDATE SET value = excluded.value, revision = excluded.revision`

func fillTenants(add func(string, ...any)) {
	add(`INSERT INTO tenants (id, name) VALUES ($1, 'dev'), ($2, 'theirs')`, tenant, theirs)
	add(setPolicy, "payment.auto_topup_enabled", policies.In(policies.LevelTenant, tenant.String()), "true")
	add(`INSERT INTO projects (id, org_id, name) VALUES ($1, $2, 'default'), ($3, $4, 'default')`, project, tenant, theirProject, theirs)
	add(`INSERT INTO projects (id, org_id, name, deleted_at) VALUES ($1, $2, '=1+1', now())`, formula, tenant)
	for token, p := range people {
		id := users[token]
		add(`INSERT INTO users (id, oidc_subject, email, name, role) VALUES ($1, $2, $2, $3, $4)`, id, emailOf(token), nameOf(token), p.role)
		if p.tenantRole != "" {
			add(`INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, $3)`, p.tenant, id, p.tenantRole)
		}
		if p.projectRole != "" {
			add(`INSERT INTO project_memberships (project_id, user_id, role) VALUES ($1, $2, $3)`, p.project, id, p.projectRole)
		}
		add(`INSERT INTO api_keys (id, user_id, name, secret_hash) VALUES ($1, $2, 'test', $3)`, ids.New[ids.APIKey](), id, hashOf(token))
	}
	add(`INSERT INTO api_keys (id, user_id, name, secret_hash, expires_at) VALUES ($1, $2, 'expired', $3, now() - interval '1 minute')`,
		ids.New[ids.APIKey](), users[tokenOwner], hashOf(tokenExpired))
	add(`INSERT INTO service_accounts (id, org_id, project_id, name, scopes, created_by) VALUES ($1, $2, $3, 'robot', '{allocations:read,apps:read}', $4)`,
		robot, tenant, project, users[tokenOwner])
	add(`INSERT INTO service_account_credentials (id, service_account_id, org_id, secret_hash) VALUES ($1, $2, $3, $4)`,
		credentialID, robot, tenant, hashOf(credential))
}

// sold counts the GPUs of the nodes of the tests.
const sold = 1000

func fillFleet(add func(string, ...any)) {
	add(`INSERT INTO sku_catalog (id, name, spec)
		VALUES ($1, $2, '{"displayName": "H100", "gpuModel": "NVIDIA H100", "memoryGiB": 80, "isolation": "host_user", "maxGPUs": 8, "active": true}'),
			($3, 'a100', '{"displayName": "A100", "gpuModel": "NVIDIA A100", "memoryGiB": 80, "isolation": "host_user", "maxGPUs": 8, "active": true}')`,
		ids.New[ids.Object](), sku, ids.New[ids.Object]())
	add(`INSERT INTO sku_prices (sku, currency, amount_minor) VALUES ($1, 'EUR', $2), ('a100', 'EUR', $2)`, sku, price)
	addNode(add, node, sku, sold)
	addNode(add, cordoned, "a100", 8)
	addNode(add, object, "other", 1)
	add(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner) VALUES (gen_random_uuid(), 'SKU', $1, '{}', 'x', 'api')`, sku)
	add(`INSERT INTO event_consumers (name, stream, epoch, pending, redelivered) VALUES ('notification_relay_low_balance', 'BILLING', 'e', 0, 0)`)
	add(`UPDATE slots SET id = $1 WHERE gpu_uuid = 'GPU-' || $2 || '-1'`, slotID, object)
}

// addNode writes a node that has reported, its desired object, and clean slots.
func addNode(add func(string, ...any), name, sku string, gpus int) {
	id := ids.New[ids.Node]()
	add(`INSERT INTO nodes (id, name, spec, lifecycle, health, reachability, topology)
		VALUES ($1, $2, jsonb_build_object('sku', $3::text, 'region', $4::text, 'onboarding', 'simulated', 'gpus', $5::int, 'cordoned', $6::bool),
			'active', 'healthy', 'reachable', '{}')`, id, name, sku, region, gpus, name == cordoned)
	add(`INSERT INTO gpus (uuid, node_id, index, model, memory_mib, health)
		SELECT 'GPU-' || $2::text || '-' || i, $1, i, 'NVIDIA H100', 81559, 'healthy' FROM generate_series(1, $3::int) AS i`, id, name, gpus)
	add(`INSERT INTO slots (id, node_id, gpu_uuid, sku, region, status)
		SELECT gen_random_uuid(), $1, 'GPU-' || $2::text || '-' || i, $4, $5, 'clean' FROM generate_series(1, $3::int) AS i`, id, name, gpus, sku, region)
	add(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner) VALUES ($1, 'Node', $2, $3::jsonb, 'x', 'api')`, id, name, nodeSpec)
	add(`INSERT INTO observed_nodes (node_id, boot, boot_id, sequence, complete, agent, capability, inventory, content_hash, observed_at, stale_at)
		VALUES ($1, 1, 'b', 1, true, '1.0.0', $2, '{"gpus":[]}', 'x', now(), now() + interval '1 day')`, id, protocol.Capability)
	// The response to a probe: without an agent the test writes it.
	add(`INSERT INTO node_tasks (id, node_id, type, fence, generation, attempt, body, signature, status, expires_at, finished_at)
		VALUES (gen_random_uuid(), $1, 'node.probe', 0, 0, 1, '\x', '\x', 'succeeded', now() + interval '1 day', now() + interval '1 day')`, id)
}

const nodeSpec = `{"sku":"h100-sxm","region":"eu-1","gpus":8,"onboarding":"manual","slicing":"whole_gpu"}`

func fillMoney(add func(string, ...any)) {
	for _, t := range []ids.Tenant{tenant, theirs} {
		add(`SELECT ledger_ensure_accounts($1, 'EUR')`, t)
	}
	transfer := func(of ids.Tenant, kind, from, reference, note string, amount int64, allocation any) {
		add(`WITH t AS (INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor, note, at) VALUES ($1, $2, $3, $4, $5, $6, $9) RETURNING id)
			INSERT INTO ledger_entries (transfer_id, account_id, at, amount_minor, currency, allocation_id)
			SELECT t.id, a.id, $9::timestamptz, CASE WHEN a.name = 'balance' THEN $5 ELSE -$5 END, 'EUR', CASE WHEN a.name = 'balance' THEN $8::uuid END
			FROM t, ledger_accounts a WHERE a.org_id = $4 AND a.name = 'balance' OR a.org_id IS NULL AND a.name = $7 AND a.currency = 'EUR'`,
			ids.New[ids.Object](), kind, reference, of, amount, note, from, allocation, t0.Add(-time.Second)) // before the time of the API
	}
	transfer(tenant, "topup", "clearing", "pi_1", "", 99000, nil)
	transfer(tenant, "usage", "revenue", "1767603900", "", -96, usedBy)
	transfer(tenant, "adjustment", "adjustments", "@x", "=HYPERLINK(1)", -1, nil)
	transfer(theirs, "topup", "clearing", "pi_2", "", 99000, nil)
	began := t0.Add(-10 * time.Minute).Unix()
	add(`INSERT INTO usage_ticks (from_s, to_s) VALUES ($1::bigint, $1::bigint + 600)`, began)
	add(`INSERT INTO usage_passes (to_s) VALUES ($1)`, began+600)
	add(`INSERT INTO usage_records (id, allocation_id, org_id, project_id, user_id, sku, gpus, price_minor, currency, account_id, start_s, end_s, opened_observation, closed_by)
		SELECT $1, $2, $3, $4, $5, $6, 2, $7, 'EUR', id, $8::bigint, $8::bigint + 600, '{"fence":1}', 'release_requested' FROM ledger_accounts WHERE org_id = $3`,
		ids.New[ids.Object](), usedBy, tenant, formula, users[tokenOwner], sku, price, began)
	add(`INSERT INTO payment_sessions (id, org_id, principal, amount_minor, currency, status, customer, provider_session, payment, livemode, expires_at)
		VALUES ($1, $2, $3, 5000, 'EUR', 'credited', 'cus_1', 'cs_1', 'pi_1', false, now() + interval '1 hour')`, paidSession, tenant, users[tokenOwner])
	add(`INSERT INTO stripe_payments (payment, session_id, org_id, amount_minor, currency, transfer_id)
		SELECT 'pi_1', $1, $2, 5000, 'EUR', id FROM ledger_transfers WHERE reference = 'pi_1'`, paidSession, tenant)
}

func fillDeclarations(add func(string, ...any)) {
	settings := `{"forge":{"kind":"github","project":"acme/fleet","url":"https://api.github.com","tokenRef":"credential:token","webhookSecretRef":"credential:hook"},
		"verify":{"required":true,"openPGP":["a","b"],"ssh":["c"]}}`
	add(`INSERT INTO git_sources (name, repository, ref, dirs, declared_by, settings, head, tree_hash, checked_at, fetched_at)
		VALUES ($1, 'https://git.example/fleet.git', 'main', '{environments/production}', 'server', $2, 'good', 't', now(), now()), ('offline', 'file:///nowhere', 'main', '{.}', 'server', '{}', 'good', 't', now(), now())`,
		source, settings)
	add(`INSERT INTO desired_revisions (source, repository, commit, tree_hash, status, objects) VALUES ($1, 'https://git.example/fleet.git', 'good', 't', 'applied', 1)`, source)
	add(`INSERT INTO desired_pointer (source, revision, commit, tree_hash) SELECT source, revision, commit, tree_hash FROM desired_revisions`)
	add(`INSERT INTO desired_revisions (source, repository, commit, status, findings)
		VALUES ($1, 'https://git.example/fleet.git', 'bad', 'invalid', '[{"path":"nodes.cue","line":3,"column":1,"message":"negative price"}]')`, source)
	add(`INSERT INTO drift (id, kind, object_id, name, field, desired, observed, cause, currency, cost_minor)
		SELECT $1, 'Node', uid, name, 'gpus', '8', '7', 'changed on the node', 'EUR', 289 FROM desired_objects WHERE name = $2`, driftID, object)
	add(`INSERT INTO plans (id, hash, actions) VALUES ($1, '3f0a', 1)`, planID)
	add(`INSERT INTO plan_actions (plan_id, number, kind, object_id, verb, fence, generation, epoch, reason)
		VALUES ($1, 1, 'Allocation', gen_random_uuid(), 'ensure', 1, 1, 0, 'never reported')`, planID)
}
