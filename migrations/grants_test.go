package migrations_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

var roles = []string{"gpuaas_api", "gpuaas_node", "gpuaas_reconcile", "gpuaas_work", "gpuaas_relay", "gpuaas_terminal"}

// A line of the matrix.
var matrixLine = regexp.MustCompile(`(?m)^\s*\('([a-z_.]+)'` + strings.Repeat(`,\s*'([rawd]*)'`, 6) + `\),?(?: -- (append-only)?.*)?$`)

type rights struct {
	letters    [6]string
	appendOnly bool
}

// matrix parses grants.sql without PostgreSQL.
func matrix(t *testing.T) map[string]rights {
	t.Helper()
	text, err := os.ReadFile("grants.sql")
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]rights{}
	for _, f := range matrixLine.FindAllStringSubmatch(string(text), -1) {
		m[f[1]] = rights{[6]string(f[2:8]), f[8] == "append-only"}
	}
	if len(m) < 50 || len(m) != strings.Count(string(text), "\t\t('") {
		t.Fatalf("read %d lines of the matrix", len(m))
	}
	return m
}

func TestEveryTableHasALineInTheMatrix(t *testing.T) {
	t.Parallel()
	m, tx := matrix(t), pgtest.Tx(t)
	tables := names(t, tx, `
		SELECT CASE relnamespace::regnamespace::text WHEN 'public' THEN '' ELSE relnamespace::regnamespace || '.' END || relname FROM pg_class
		WHERE relnamespace IN ('public'::regnamespace, 'river'::regnamespace) AND relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT relispartition`)
	for _, table := range tables {
		if _, listed := m[table]; !listed {
			t.Errorf("grants.sql does not say who may use %s", table)
		}
	}
	for table := range m {
		if !slices.Contains(tables, table) {
			t.Errorf("grants.sql names %s, which is not there", table)
		}
	}
	facts := names(t, tx, `
		SELECT relname::text FROM pg_class c JOIN pg_trigger t ON t.tgrelid = c.oid JOIN pg_proc p ON p.oid = t.tgfoid
		WHERE proname = 'reject_change' AND NOT relispartition GROUP BY relname`)
	for _, fact := range facts {
		if !m[fact].appendOnly {
			t.Errorf("grants.sql does not mark %s as append-only", fact)
		}
	}
}

// TestTAB01RolesMayWhatTheMatrixSays tries every verb on every table as every role.
func TestTAB01RolesMayWhatTheMatrixSays(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	views := names(t, db, `SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'v'`)
	for i, role := range roles {
		pool := pgtest.As(t, db, role)
		for table, r := range matrix(t) {
			if r.appendOnly && strings.ContainsAny(r.letters[i], "wd") {
				t.Errorf("%s may change facts of %s", role, table)
			}
			columns := strings.Join(names(t, db, `
				SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`, table), ", ")
			first := column(t, db, table)
			for letter, sql := range map[string]string{
				"r": `SELECT * FROM ` + table + ` LIMIT 0`,
				"a": `INSERT INTO ` + table + ` (` + columns + `) OVERRIDING SYSTEM VALUE SELECT ` + columns + ` FROM jsonb_populate_record(NULL::` + table + `, '{}') LIMIT 0`,
				"w": `UPDATE ` + table + ` SET ` + first + ` = DEFAULT WHERE false`,
				"d": `DELETE FROM ` + table + ` WHERE false`,
				"t": `TRUNCATE ` + table + ` CASCADE`,
			} {
				if letter != "r" && slices.Contains(views, table) {
					continue // a view
				}
				_, err := pool.Exec(t.Context(), sql)
				if may := strings.Contains(r.letters[i], letter); may == forbidden(err) {
					t.Errorf("%s: %s: %v", role, sql, err)
				}
			}
		}
	}
}

func TestFunctionsWithTheirOwnersRightsAreNotForAll(t *testing.T) {
	t.Parallel()
	tx := pgtest.Tx(t)
	for _, f := range names(t, tx, `
		SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef
			AND (has_function_privilege('public', oid, 'EXECUTE') OR NOT coalesce(proconfig[1] LIKE 'search\_path=%, pg\_temp', false))`) {
		t.Errorf("%s may be called by everyone, or looks names up on the caller's path", f)
	}
}

func TestRolesCanDoNothingElse(t *testing.T) {
	t.Parallel()
	tx := pgtest.Tx(t)
	for _, role := range names(t, tx, `
		SELECT rolname::text FROM pg_roles r WHERE rolname = ANY ($1) AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication OR rolinherit
			OR NOT rolcanlogin OR EXISTS (SELECT FROM pg_auth_members WHERE member = r.oid)
			OR has_schema_privilege(oid, 'public', 'CREATE') OR has_schema_privilege(oid, 'river', 'CREATE'))`, roles) {
		t.Errorf("%s is more than a login", role)
	}
	if n := len(names(t, tx, `SELECT rolname::text FROM pg_roles WHERE rolname = ANY ($1)`, roles)); n != len(roles) {
		t.Errorf("%d roles", n)
	}
}

// The test cluster loses everything on a power cut, on purpose.
var fragile = []string{"fsync is off", "full_page_writes is off", "synchronous_commit is off"}

func findings(t *testing.T, db pg.Queryer) []string {
	t.Helper()
	var refused *errs.Error
	if err := pg.Examine(t.Context(), db); !errors.As(err, &refused) || refused.Code != errs.ValidationError {
		t.Fatalf("got %v", err)
	}
	found, _ := refused.Details["findings"].([]string)
	return slices.DeleteFunc(found, func(s string) bool { return slices.Contains(fragile, s) })
}

func TestTAB02PlantedFaultsAreNamed(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	for _, role := range roles {
		if found := findings(t, pgtest.As(t, db, role)); len(found) != 0 {
			t.Errorf("%s: %v", role, found)
		}
	}
	if found := findings(t, db); !slices.Contains(found, "role gpuaas is a superuser") || !slices.Contains(found, "role gpuaas may DELETE audit_logs") {
		t.Errorf("of a superuser: %v", found)
	}
	api := pgtest.As(t, db, "gpuaas_api")
	for sql, want := range map[string]string{
		`ALTER TABLE allocations DISABLE ROW LEVEL SECURITY`:     "row-level security is not forced on allocations",
		`ALTER TABLE ledger_entries NO FORCE ROW LEVEL SECURITY`: "row-level security is not forced on ledger_entries",
		`CREATE TABLE notes (org_id uuid)`:                       "row-level security is not forced on notes",
		`GRANT UPDATE (actor) ON audit_logs TO gpuaas_api`:       "role gpuaas_api may UPDATE audit_logs",
		`GRANT TRUNCATE ON outbox_events TO PUBLIC`:              "role gpuaas_api may TRUNCATE outbox_events",
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
		if found := findings(t, api); !slices.Contains(found, want) {
			t.Errorf("%s: %v", sql, found)
		}
	}
}
