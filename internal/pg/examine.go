package pg

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// unfit lists the reasons why a server must not use a database: settings that can lose committed
// data, and rights that a role that answers requests must not have. A table belongs to a tenant if
// a column marks it or if it has a policy. A table is append-only if a trigger rejects changes, as
// for the whole ledger.
const unfit = `
	WITH tables AS (
		SELECT c.oid, c.relname, c.relrowsecurity AND c.relforcerowsecurity AS forced,
			c.relname LIKE 'ledger\_%' OR EXISTS (
				SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
				WHERE t.tgrelid = c.oid AND p.proname = 'reject_change' AND p.pronamespace = c.relnamespace) AS fact,
			EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid) OR EXISTS (
				SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND NOT a.attisdropped AND a.attname IN ('org_id', 'user_id', 'principal')) AS of_tenants
		FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
	)
	SELECT name || ' is ' || setting FROM pg_settings
	WHERE (name, setting) IN (('fsync', 'off'), ('full_page_writes', 'off'), ('synchronous_commit', 'off'),
			('statement_timeout', '0'), ('lock_timeout', '0'), ('idle_in_transaction_session_timeout', '0'))
		OR name = 'server_encoding' AND setting <> 'UTF8' OR name = 'TimeZone' AND setting <> 'UTC'
	UNION ALL
	SELECT 'the database is in recovery' WHERE pg_is_in_recovery()
	UNION ALL
	SELECT 'role ' || rolname || ' is a superuser' FROM pg_roles WHERE rolname = current_user AND rolsuper
	UNION ALL
	SELECT 'role ' || rolname || ' has BYPASSRLS' FROM pg_roles WHERE rolname = current_user AND rolbypassrls
	UNION ALL
	SELECT 'role ' || current_user || ' may ' || verb || ' ' || relname
	FROM tables CROSS JOIN unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE']) AS verb
	WHERE fact AND (has_table_privilege(oid, verb) OR verb = 'UPDATE' AND has_any_column_privilege(oid, verb))
	UNION ALL
	SELECT 'row-level security is not forced on ' || relname FROM tables WHERE of_tenants AND NOT forced
	ORDER BY 1`

// Examine returns an error for a database or a role that a server must not use.
func Examine(ctx context.Context, q Queryer) error {
	rows, err := q.Query(ctx, unfit)
	if err != nil {
		return fmt.Errorf("examining the database: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("examining the database: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	return errs.Invalid("DATABASE_URL", "this database is not fit to serve: %s", strings.Join(found, "; ")).
		With("findings", found).Try("see docs/reference/database.md")
}
