package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// A marketplace that is all numbers: the n-th tenant, its project, its user, the
// n-th node, the n-th slot and its GPU have ids that end in one number, so that a
// peer which knows only numbers can name them, too.
const (
	tenantPrefix  = "aaaaaaaa-0000-7000-8000-"
	projectPrefix = "bbbbbbbb-0000-7000-8000-"
	userPrefix    = "cccccccc-0000-7000-8000-"
	slotPrefix    = "dddddddd-0000-7000-8000-"
	nodePrefix    = "eeeeeeee-0000-7000-8000-"
	// first keeps every number at the twelve digits that end a UUID.
	first = 100_000_000_000
)

// market is how much of each there is.
type market struct{ tenants, nodes, slotsPerNode int }

func (m market) slots() int { return m.nodes * m.slotsPerNode }

// sku is what is sold in it.
const sku = "bench"

// token is the personal key of the n-th tenant's user.
func token(n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "bench %d", n))
	return "gpk_" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// open fills an empty database with a marketplace: tenants who can pay, nodes
// that report, slots that are clean, and policies that let everybody through.
func (m market) open(ctx context.Context, l *lab, url string) error {
	id := func(prefix, number string) string {
		return fmt.Sprintf("('%s' || (%d + %s))::uuid", prefix, int64(first), number)
	}
	tenants, nodes, slots := fmt.Sprintf("generate_series(0, %d) i", m.tenants-1), fmt.Sprintf("generate_series(0, %d) i", m.nodes-1),
		fmt.Sprintf("generate_series(0, %d) i", m.slots()-1)
	node, gpu := id(nodePrefix, fmt.Sprintf("i / %d", m.slotsPerNode)), "'GPU-"+slotPrefix+"' || ("+fmt.Sprint(int64(first))+" + i)"
	statements := []string{
		`INSERT INTO tenants (id, name) SELECT ` + id(tenantPrefix, "i") + `, 't' || i FROM ` + tenants,
		`INSERT INTO projects (id, org_id, name) SELECT ` + id(projectPrefix, "i") + `, ` + id(tenantPrefix, "i") + `, 'default' FROM ` + tenants,
		`INSERT INTO users (id, oidc_subject, email, name, role) SELECT ` + id(userPrefix, "i") + `, i::text, i || '@bench', 'u' || i, 'user' FROM ` + tenants,
		`INSERT INTO tenant_memberships (org_id, user_id, role) SELECT ` + id(tenantPrefix, "i") + `, ` + id(userPrefix, "i") + `, 'owner' FROM ` + tenants,
		`INSERT INTO project_memberships (project_id, user_id, role) SELECT ` + id(projectPrefix, "i") + `, ` + id(userPrefix, "i") + `, 'admin' FROM ` + tenants,
		`INSERT INTO ssh_keys (id, user_id, name, public_key, fingerprint)
			SELECT gen_random_uuid(), ` + id(userPrefix, "i") + `, 'laptop', 'ssh-ed25519 ' || repeat('A', 68), 'SHA256:' || i FROM ` + tenants,
		m.keys(),
		`DO $$ BEGIN PERFORM ledger_ensure_accounts(id, 'EUR') FROM tenants; END $$`,
		`INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor) SELECT org_id, 'test_credit', org_id, org_id, 1000000000000 FROM ledger_accounts WHERE name = 'balance'`,
		`INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency) SELECT org_id, id, 1000000000000, 'EUR' FROM ledger_accounts WHERE name = 'balance'`,
		`INSERT INTO sku_catalog (id, name, display_name, gpu_model, memory_gib, isolation, max_gpus, active) VALUES (gen_random_uuid(), '` + sku + `', 'Bench', 'H100', 80, 'host_user', 8, true)`,
		`INSERT INTO sku_prices (sku, currency, amount_minor, valid_from) VALUES ('` + sku + `', 'EUR', 200, '2020-01-01')`,
		`INSERT INTO nodes (id, name, spec, lifecycle, health, reachability)
			SELECT ` + id(nodePrefix, "i") + `, 'node-' || i, jsonb_build_object('sku', '` + sku + `', 'region', 'eu', 'onboarding', 'simulated', 'gpus', ` + fmt.Sprint(m.slotsPerNode) + `), 'active', 'healthy', 'reachable' FROM ` + nodes,
		`INSERT INTO gpus (uuid, node_id, index, model, memory_mib, health) SELECT ` + gpu + `, ` + node + `, i, 'H100', 81559, 'healthy' FROM ` + slots,
		`INSERT INTO slots (id, node_id, gpu_uuid, sku, region, status) SELECT ` + id(slotPrefix, "i") + `, ` + node + `, ` + gpu + `, '` + sku + `', 'eu', 'clean' FROM ` + slots,
	}
	return l.exec(ctx, url, append(append(statements, openPolicies()...), `VACUUM ANALYZE`)...)
}

// openPolicies let everybody through, as often as they may be set to.
func openPolicies() []string {
	statements := []string{`UPDATE policy_revision SET revision = revision + 1`}
	for key, most := range map[string]int{
		"allocation.max_concurrent_per_user": 1000, "allocation.max_concurrent_per_project": 10_000, "allocation.max_concurrent_per_tenant": 100_000,
		"billing.hourly_spend_limit_minor": 1_000_000_000,
		"ratelimit.user_per_minute":        mostPerMinute, "ratelimit.tenant_per_minute": mostPerMinute, "ratelimit.mutation_per_minute": mostPerMinute, "ratelimit.burst": mostPerMinute,
	} {
		statements = append(statements, fmt.Sprintf(`INSERT INTO policy_values (key, scope, value, revision) SELECT '%s', 'platform', '%d', revision FROM policy_revision`, key, most))
	}
	return statements
}

// mostPerMinute is the upper bound of what a rate limit may be.
const mostPerMinute = 100_000

func (m market) keys() string {
	var rows []string
	for i := range m.tenants {
		sum := sha256.Sum256([]byte(token(i)))
		rows = append(rows, fmt.Sprintf(`(gen_random_uuid(), '%s%d', 'bench', '\x%s')`, userPrefix, int64(first)+int64(i), hex.EncodeToString(sum[:])))
	}
	return `INSERT INTO api_keys (id, user_id, name, secret_hash) VALUES ` + strings.Join(rows, ", ")
}
