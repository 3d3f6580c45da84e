package lab

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// The ids of the marketplace end in a number: tenant n, its project, its user, node n, slot n and
// its GPU. pgbench has only numbers as variables, so the peer can generate the same ids.
const (
	TenantPrefix  = "aaaaaaaa-0000-7000-8000-"
	ProjectPrefix = "bbbbbbbb-0000-7000-8000-"
	UserPrefix    = "cccccccc-0000-7000-8000-"
	SlotPrefix    = "dddddddd-0000-7000-8000-"
	NodePrefix    = "eeeeeeee-0000-7000-8000-"
	// First is added to every number, so that it always has the twelve digits that end a UUID.
	First = 100_000_000_000
)

// Market is the size of a marketplace.
type Market struct{ Tenants, Nodes, SlotsPerNode int }

func (m Market) slots() int { return m.Nodes * m.SlotsPerNode }

// Sku is the only SKU of a marketplace.
const Sku = "bench"

// Token returns the API key of the user of tenant n.
func Token(n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "bench %d", n))
	return "gpk_" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Open fills an empty database with a marketplace: tenants with a balance, nodes that report, clean
// slots, and policies that limit no request.
func (m Market) Open(ctx context.Context, l *Lab, url string) error {
	id := func(prefix, number string) string {
		return fmt.Sprintf("('%s' || (%d + %s))::uuid", prefix, int64(First), number)
	}
	tenants, nodes, slots := fmt.Sprintf("generate_series(0, %d) i", m.Tenants-1), fmt.Sprintf("generate_series(0, %d) i", m.Nodes-1),
		fmt.Sprintf("generate_series(0, %d) i", m.slots()-1)
	node, gpu := id(NodePrefix, fmt.Sprintf("i / %d", m.SlotsPerNode)), "'GPU-"+SlotPrefix+"' || ("+fmt.Sprint(int64(First))+" + i)"
	statements := []string{
		`INSERT INTO tenants (id, name) SELECT ` + id(TenantPrefix, "i") + `, 't' || i FROM ` + tenants,
		`INSERT INTO projects (id, org_id, name) SELECT ` + id(ProjectPrefix, "i") + `, ` + id(TenantPrefix, "i") + `, 'default' FROM ` + tenants,
		`INSERT INTO users (id, oidc_subject, email, name, role) SELECT ` + id(UserPrefix, "i") + `, i::text, i || '@bench', 'u' || i, 'user' FROM ` + tenants,
		`INSERT INTO tenant_memberships (org_id, user_id, role) SELECT ` + id(TenantPrefix, "i") + `, ` + id(UserPrefix, "i") + `, 'owner' FROM ` + tenants,
		`INSERT INTO project_memberships (project_id, user_id, role) SELECT ` + id(ProjectPrefix, "i") + `, ` + id(UserPrefix, "i") + `, 'admin' FROM ` + tenants,
		`INSERT INTO ssh_keys (id, user_id, name, public_key, fingerprint)
			SELECT gen_random_uuid(), ` + id(UserPrefix, "i") + `, 'laptop', 'ssh-ed25519 ' || repeat('A', 68), 'SHA256:' || i FROM ` + tenants,
		m.keys(),
		`DO $$ BEGIN PERFORM ledger_ensure_accounts(id, 'EUR') FROM tenants; END $$`,
		`INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor) SELECT org_id, 'test_credit', org_id, org_id, 1000000000000 FROM ledger_accounts WHERE name = 'balance'`,
		`INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency) SELECT org_id, id, 1000000000000, 'EUR' FROM ledger_accounts WHERE name = 'balance'`,
		`INSERT INTO sku_catalog (id, name, spec) VALUES (gen_random_uuid(), '` + Sku + `', '{"displayName": "Bench", "gpuModel": "H100", "memoryGiB": 80, "isolation": "host_user", "maxGPUs": 8, "active": true}')`,
		`INSERT INTO sku_prices (sku, currency, amount_minor, valid_from) VALUES ('` + Sku + `', 'EUR', 200, '2020-01-01')`,
		`INSERT INTO nodes (id, name, spec, lifecycle, health, reachability)
			SELECT ` + id(NodePrefix, "i") + `, 'node-' || i, jsonb_build_object('sku', '` + Sku + `', 'region', 'eu', 'onboarding', 'simulated', 'gpus', ` + fmt.Sprint(m.SlotsPerNode) + `), 'active', 'healthy', 'reachable' FROM ` + nodes,
		`INSERT INTO gpus (uuid, node_id, index, model, memory_mib, health) SELECT ` + gpu + `, ` + node + `, i, 'H100', 81559, 'healthy' FROM ` + slots,
		`INSERT INTO slots (id, node_id, gpu_uuid, sku, region, status) SELECT ` + id(SlotPrefix, "i") + `, ` + node + `, ` + gpu + `, '` + Sku + `', 'eu', 'clean' FROM ` + slots,
	}
	return l.Exec(ctx, url, append(append(statements, OpenPolicies()...), `VACUUM ANALYZE`)...)
}

// mostPerMinute is the largest rate limit that the policies allow.
const mostPerMinute = 100_000

func (m Market) keys() string {
	var rows []string
	for i := range m.Tenants {
		sum := sha256.Sum256([]byte(Token(i)))
		rows = append(rows, fmt.Sprintf(`(gen_random_uuid(), '%s%d', 'bench', '\x%s')`, UserPrefix, int64(First)+int64(i), hex.EncodeToString(sum[:])))
	}
	return `INSERT INTO api_keys (id, user_id, name, secret_hash) VALUES ` + strings.Join(rows, ", ")
}
