package migrations_test

import (
	"context"
	_ "embed"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

//go:embed testdata/two_tenants.sql
var twoTenants string

const (
	idA = "aaaaaaaa-0000-0000-0000-000000000000"
	idB = "bbbbbbbb-0000-0000-0000-000000000000"
)

// confined are the tables that say whose their rows are, or have a policy of tenants. Those of signing_keys
// are about roles of the server.
func confined(t *testing.T, db pg.Queryer) []string {
	t.Helper()
	return names(t, db, `
		SELECT relname::text FROM pg_class c
		WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'signing_keys' AND (relrowsecurity
			OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname IN ('org_id', 'user_id', 'principal')))`)
}

func names(t *testing.T, db pg.Queryer, sql string, args ...any) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// countVisible counts a table's rows that name the id; a table that may not be read has none.
func countVisible(ctx context.Context, t *testing.T, db pg.Queryer, table, id string) (n int) {
	t.Helper()
	err := db.QueryRow(ctx, `SELECT count(*) FROM `+table+` AS x WHERE to_jsonb(x)::text LIKE '%'||$1||'%'`, id).Scan(&n)
	if err != nil && !forbidden(err) {
		t.Fatalf("%s: %v", table, err)
	}
	return n
}

// forbidden is true if a right is missing, or a policy rejects the row.
func forbidden(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "42501"
}

func furnished(t *testing.T) (*pgxpool.Pool, pg.Scoped) {
	t.Helper()
	db := pgtest.Clone(t)
	if _, err := db.Exec(t.Context(), twoTenants); err != nil {
		t.Fatal(err)
	}
	return db, pgtest.Scoped(t, db)
}

func TestINV61AForgottenScopeSeesNothing(t *testing.T) {
	t.Parallel()
	db, api := furnished(t)
	tables := confined(t, db)
	if len(tables) < 25 {
		t.Fatalf("only %v are confined", tables)
	}
	for _, table := range tables {
		for _, id := range []string{idA, idB} {
			if countVisible(t.Context(), t, db, table, id) == 0 {
				t.Errorf("the test has no row of %s in %s", id, table)
			}
		}
		var n int
		if err := api.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil && !forbidden(err) || n != 0 {
			t.Errorf("%s shows %d rows without a scope, %v", table, n, err)
		}
		if tag, err := api.Exec(t.Context(), `INSERT INTO `+table+` SELECT (jsonb_populate_record(NULL::`+table+`, '{}')).*`); err == nil {
			t.Errorf("%s accepts a row without a scope: %s", table, tag)
		}
	}
}

// What the API does not read under a tenant's scope, so that a policy that hides
// everything is not taken for a good one.
var unread = map[string]string{
	"sign_in_links": "found by the platform", "audit_seals": "only written", "stripe_events": "found by the platform",
	"notification_digests": "only written", "invitation_mails": "only written",
}

func TestINV61ScopeIsOneTenant(t *testing.T) {
	t.Parallel()
	db, api := furnished(t)
	mine := pg.WithScope(t.Context(), pg.Scope{Tenant: idA, Principal: idA})
	all := pg.WithScope(t.Context(), pg.Platform)
	for _, table := range confined(t, db) {
		if n := countVisible(mine, t, api, table, idA); (n == 0) != (unread[table] != "") {
			t.Errorf("%s shows the tenant %d of its rows", table, n)
		}
		if n := countVisible(mine, t, api, table, idB); n != 0 {
			t.Errorf("%s shows %d rows of the other tenant", table, n)
		}
		if n := countVisible(mine, t, api, table, "c0000000"); n != 0 && table != "observed_allocations" && table != "allocations" {
			t.Errorf("%s shows %d rows of the platform", table, n)
		}
		if countVisible(all, t, api, table, idB) == 0 && unread[table] != "only written" {
			t.Errorf("%s hides rows from the platform", table)
		}
		for _, verb := range []string{`DELETE FROM ` + table, `UPDATE ` + table + ` SET ` + column(t, db, table) + ` = DEFAULT`} {
			sql := strings.Replace(verb, table, table+" AS x", 1) + ` WHERE to_jsonb(x)::text LIKE '%` + idB + `%'`
			if tag, err := api.Exec(mine, sql); err == nil && tag.RowsAffected() != 0 || err != nil && !forbidden(err) {
				t.Errorf("%s: %s, %v", sql, tag, err)
			}
		}
	}
}

func column(t *testing.T, db pg.Queryer, table string) string {
	t.Helper()
	return names(t, db, `SELECT attname::text FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum LIMIT 1`, table)[0]
}

func TestINV61NoRowIsMadeForAnother(t *testing.T) {
	t.Parallel()
	db, api := furnished(t)
	mine := pg.WithScope(t.Context(), pg.Scope{Tenant: idA, Principal: idA})
	for _, table := range confined(t, db) {
		if table == "slot_claims" {
			continue // claimed before the allocation is there: see the policy
		}
		columns := strings.Join(names(t, db, `SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`, table), ", ")
		for _, row := range names(t, db, `SELECT to_jsonb(x)::text FROM `+table+` AS x WHERE to_jsonb(x)::text LIKE '%`+idB+`%'`) {
			_, err := api.Exec(mine, `INSERT INTO `+table+` (`+columns+`) OVERRIDING SYSTEM VALUE SELECT `+columns+` FROM jsonb_populate_record(NULL::`+table+`, $1)`, row)
			if !forbidden(err) {
				t.Errorf("%s: %v", table, err)
			}
		}
	}
}

func TestINV61PrincipalsOfOneTenantAreApart(t *testing.T) {
	t.Parallel()
	db, api := furnished(t)
	colleague := pg.WithScope(t.Context(), pg.Scope{Tenant: idA, Principal: "aaaaaaaa-0000-0000-0000-000000000001"})
	for _, table := range []string{"ssh_keys", "user_passwords", "idempotency_keys"} {
		if n := countVisible(colleague, t, api, table, idA); n != 0 || countVisible(t.Context(), t, db, table, idA) == 0 {
			t.Errorf("%s shows %d rows of a colleague", table, n)
		}
	}
}

func TestTheOthersSeeAllTenants(t *testing.T) {
	t.Parallel()
	db, _ := furnished(t)
	for role, tables := range map[string][]string{
		"gpuaas_node": {"observed_allocations"}, "gpuaas_reconcile": {"allocation_progress", "desired_objects"},
		"gpuaas_work": {"allocations", "ledger_entries", "usage_records", "slot_claims"}, "gpuaas_relay": {"outbox_events"}, "gpuaas_terminal": {"allocations"},
	} {
		pool := pgtest.As(t, db, role)
		for _, table := range tables {
			for _, id := range []string{idA, idB} {
				if countVisible(t.Context(), t, pool, table, id) == 0 {
					t.Errorf("%s does not see %s in %s", role, id, table)
				}
			}
		}
	}
}
