package migrations_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// actors are the connections of an attacker: every role of a
// server, the role of the API under each scope, and the owner of the tables.
func actors(t *testing.T) (db pg.Queryer, all map[string]func(sql string) error) {
	t.Helper()
	owner, api := furnished(t)
	all = map[string]func(sql string) error{"owner": func(sql string) error {
		_, err := owner.Exec(t.Context(), sql)
		return err
	}}
	for _, role := range roles {
		pool := pgtest.As(t, owner, role)
		all[role] = func(sql string) error {
			_, err := pool.Exec(t.Context(), sql)
			return err
		}
	}
	for name, scope := range map[string]pg.Scope{"a tenant": {Tenant: idA, Principal: idA}, "an operator": pg.Platform} {
		all[name] = func(sql string) error {
			_, err := api.Exec(pg.WithScope(t.Context(), scope), sql)
			return err
		}
	}
	return owner, all
}

// rejected is true if a right is missing, a policy rejects the row, or a
// trigger keeps the fact.
func rejected(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "42501" || e.Code == "23001")
}

// INV-29: no role changes a written record.
func TestINV29RecordsCannotBeChanged(t *testing.T) {
	t.Parallel()
	db, all := actors(t)
	must(t, db, `INSERT INTO usage_ticks (from_s, to_s) VALUES (1, 2)`, `INSERT INTO audit_exports (month, file, rows, sha256) VALUES ('2026-01-01', 'f', 0, sha256(''))`, `INSERT INTO usage_passes (to_s) VALUES (2)`,
		`INSERT INTO key_sets (kind, sequence, kid, body, signature) VALUES ('control', 1, 'k', '', decode(repeat('00', 64), 'hex'))`)
	facts := []string{"usage_records"} // it ends once, and is otherwise one
	for table, r := range matrix(t) {
		if r.appendOnly {
			facts = append(facts, table)
		}
	}
	facts = append(facts, names(t, db, `SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = ANY (ARRAY['ledger_entries', 'audit_logs', 'outbox_events']::regclass[])
		AND inhrelid::regclass::text LIKE '%' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMM')`)...)
	for _, want := range []string{"ledger_accounts", "ledger_transfers", "ledger_entries", "ledger_checkpoints", "usage_ticks", "usage_passes", "usage_credits"} {
		if !slices.Contains(facts, want) {
			t.Errorf("%s is no fact", want)
		}
	}
	for _, table := range facts {
		var n int
		if err := db.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil || n == 0 {
			t.Errorf("the test has %d rows in %s, %v", n, table, err)
		}
		first := names(t, db, `SELECT attname::text FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND attidentity = '' ORDER BY attnum LIMIT 1`, table)[0]
		for _, sql := range []string{
			`UPDATE ` + table + ` SET ` + first + ` = ` + first, `DELETE FROM ` + table,
			`TRUNCATE ` + table, `TRUNCATE ` + table + ` CASCADE`,
		} {
			for who, try := range all {
				if err := try(sql); !rejected(err) && !referenced(err) {
					t.Errorf("%s as %s: %v", sql, who, err)
				}
			}
		}
	}
}

// referenced says that another table's rows hold this one's.
func referenced(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "0A000" && strings.Contains(e.Message, "referenced in a foreign key")
}

// INV-29: an interval that has ended has ended, and nothing else of it changes.
func TestINV29AnIntervalEndsOnce(t *testing.T) {
	t.Parallel()
	db, all := actors(t)
	delete(all, "gpuaas_api") // without a scope it finds none
	const end = `UPDATE usage_records SET end_s = 5, closed_by = 'release_requested' WHERE id = '` + idA + `'`
	for who, try := range all {
		for _, sql := range []string{
			`UPDATE usage_records SET price_minor = 0`, `UPDATE usage_records SET start_s = start_s + 1`, `UPDATE usage_records SET end_s = NULL`,
			strings.Replace(end, "SET", "SET gpus = 2,", 1),
		} {
			if err := try(sql); !rejected(err) {
				t.Errorf("%s as %s: %v", sql, who, err)
			}
		}
	}
	if err := all["a tenant"](end); err != nil {
		t.Fatal(err)
	}
	for _, who := range slices.Sorted(maps.Keys(all)) {
		if err := all[who](strings.Replace(end, "5", "6", 1)); !rejected(err) {
			t.Errorf("ended once more as %s: %v", who, err)
		}
	}
	if n := names(t, db, `SELECT end_s::text FROM usage_records WHERE id = $1`, idA); n[0] != "5" {
		t.Errorf("it ends at %s", n[0])
	}
}

// Money is moved by the platform only: a tenant's scope reads, and the roles that
// do not charge do not even that.
func TestINV29MoneyIsMovedByThePlatformOnly(t *testing.T) {
	t.Parallel()
	_, all := actors(t)
	for who, try := range all {
		for _, sql := range []string{
			`INSERT INTO ledger_transfers (id, kind, reference, amount_minor) VALUES (gen_random_uuid(), 'topup', gen_random_uuid(), 1)`,
			`INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency) VALUES ('` + idA + `', '` + idA + `', 1, 'EUR')`,
			`INSERT INTO ledger_accounts (org_id, name, currency) VALUES (NULL, 'revenue', 'USD')`,
			`INSERT INTO ledger_checkpoints (account_id, up_to, balance_minor, chain) VALUES ('` + idA + `', 9, 1000000, '')`,
		} {
			err := try(sql)
			switch who {
			case "owner", "gpuaas_work", "an operator":
				// They may insert, and a transfer that does not sum to zero is rejected at commit.
			default:
				if !rejected(err) {
					t.Errorf("%s as %s: %v", sql, who, err)
				}
			}
		}
	}
	if err := all["an operator"](`INSERT INTO ledger_checkpoints (account_id, up_to, balance_minor, chain) VALUES ('` + idA + `', 10, 1, '')`); !rejected(err) {
		t.Errorf("an operator seals: %v", err)
	}
}
