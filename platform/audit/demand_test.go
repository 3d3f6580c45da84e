package audit_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// One row of each table whose changes are privileged.
const privileged = `
	INSERT INTO tenants (id, name) VALUES (id(1), 't');
	INSERT INTO projects (id, org_id, name) VALUES (id(1), id(1), 'p');
	INSERT INTO users (id, oidc_subject, email, name, role) VALUES (id(1), 's', 'e', 'n', 'user');
	INSERT INTO tenant_memberships (org_id, user_id, role) VALUES (id(1), id(1), 'owner');
	INSERT INTO project_memberships (project_id, user_id, role) VALUES (id(1), id(1), 'admin');
	INSERT INTO user_passwords (user_id, hash) VALUES (id(1), 'h');
	INSERT INTO invitations (id, org_id, email, role, invited_by, expires_at) VALUES (id(1), id(1), 'e', 'member', id(1), now());
	INSERT INTO service_accounts (id, org_id, project_id, name, scopes, created_by) VALUES (id(1), id(1), id(1), 'a', '{}', id(1));
	INSERT INTO service_account_credentials (id, service_account_id, org_id, secret_hash) VALUES (id(1), id(1), id(1), 'x');
	INSERT INTO api_keys (id, user_id, name, secret_hash) VALUES (id(1), id(1), 'k', 'x');
	INSERT INTO ssh_keys (id, user_id, name, public_key, fingerprint) VALUES (id(1), id(1), 'k', 'p', 'f');
	INSERT INTO sessions (id, user_id, secret_hash, expires_at) VALUES (id(1), id(1), 'x', now());
	INSERT INTO sign_in_links (secret_hash, user_id, expires_at) VALUES ('x', id(1), now());
	INSERT INTO nodes (id, name, spec, lifecycle) VALUES (id(1), 'n', '{"sku": "s", "region": "r", "gpus": 1}', 'declared');
	INSERT INTO enrolment_tokens (secret_hash, node_id, expires_at) VALUES ('x', id(1), now());
	INSERT INTO allocations (id, org_id, project_id, user_id, name, sku, region, gpus, node_id, price_minor, currency, login, host_uid, status)
	VALUES (id(1), id(1), id(1), id(1), 'a', 's', 'r', 1, id(1), 1, 'EUR', 'u1', 1, 'requested');
	INSERT INTO terminal_sessions (id, org_id, project_id, allocation_id, node_id, fence, instance_id, principal, by_program, sign_in_id, scopes, limited, purpose, address, user_agent, correlation_id)
	VALUES (id(1), id(1), id(1), id(1), id(1), 1, id(1), id(1), false, id(1), '{}', false, 'shell', '', '', '');
	INSERT INTO certificates (serial, node_id, status, not_after) VALUES ('ab', id(1), 'active', now());
	INSERT INTO breaker_trips (held, allowed, fleet, reason, rejected_nodes) VALUES (2, 2, 9, 'r', '{}');
	INSERT INTO fault_reports (id, allocation_id, org_id, node_id, message, reported_by) VALUES (id(1), id(1), id(1), id(1), 'm', 'a');
	INSERT INTO webhook_endpoints (id, org_id, name, url, patterns, format, signature, secret_enc, created_by) VALUES (id(1), id(1), 'w', 'u', '{p}', 'slack', 'v1', 'x', 'a');
	INSERT INTO dead_letters (id, consumer, event_id, stream, subject, error, dead_at) VALUES (id(1), 'c', id(1), 'FLEET', 's', 'x', now());
	INSERT INTO notification_preferences (id, scope) VALUES (id(1), 'user');
	INSERT INTO suppressed_addresses (id, address, reason) VALUES (id(1), 'a', 'r');
	INSERT INTO gpus (uuid, node_id, index, model, memory_mib, health) VALUES ('g', id(1), 0, 'm', 1, 'healthy');
	INSERT INTO slots (id, node_id, gpu_uuid, sku, region, status) VALUES (id(1), id(1), 'g', 's', 'r', 'dirty');
	INSERT INTO git_sources (name, repository, ref, dirs, declared_by) VALUES ('s', 'r', 'main', '{}', 'server');
	INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner) VALUES (id(1), 'Node', 'n', '{}', '', 'api');
	INSERT INTO plans (id, hash, actions, origin) VALUES (id(1), 'h', 0, 'change');
	INSERT INTO drift (id, kind, object_id, field) VALUES (id(1), 'Node', id(1), 'f')`

var roles atomic.Int64

// asRole returns a database with those rows, and a role that may change all
// tables of all tenants, and is no superuser.
func asRole(t *testing.T) (db *pgxpool.Pool, role string) {
	t.Helper()
	db, role = pgtest.Clone(t), fmt.Sprintf("audit_test_%d", roles.Add(1))
	for _, sql := range []string{
		`CREATE FUNCTION id(n int) RETURNS uuid IMMUTABLE LANGUAGE sql AS $$ SELECT lpad(n::text, 32, '0')::uuid $$`,
		privileged,
		`CREATE ROLE ` + role + ` BYPASSRLS`,
		`GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA public TO ` + role,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := db.Exec(context.WithoutCancel(t.Context()), `DROP OWNED BY `+role+`; DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
	return db, role
}

// steps runs statements as the role in one transaction, and commits. "audit" is replaced by an audit
// row.
func steps(ctx context.Context, db *pgxpool.Pool, role string, statements ...string) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		for _, sql := range append([]string{`SET LOCAL ROLE ` + role}, statements...) {
			b := &pgx.Batch{}
			b.Queue(sql)
			if sql == "audit" {
				b = &pgx.Batch{}
				audit.Queue(b, audit.Entry{By: audit.By{Actor: "user:u"}, Action: "a.b", Target: "t"})
			}
			if err := tx.SendBatch(ctx, b).Close(); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
}

// AT-080. Changes of rights in each table need an audit row; changes of times only do not.
func TestINV58PrivilegedChangesDemandAnAuditRow(t *testing.T) {
	t.Parallel()
	db, role := asRole(t)
	demanded := []string{
		`INSERT INTO tenants (id, name) VALUES (id(2), 'u')`,
		`UPDATE tenants SET name = 'u'`,
		`INSERT INTO projects (id, org_id, name) VALUES (id(2), id(1), 'q')`,
		`UPDATE projects SET deleted_at = now()`,
		`UPDATE tenant_memberships SET role = 'viewer'`,
		`DELETE FROM tenant_memberships`,
		`UPDATE project_memberships SET role = 'viewer'`,
		`DELETE FROM project_memberships`,
		`INSERT INTO users (id, oidc_subject, email, name, role) VALUES (id(2), 't', 'f', 'n', 'admin')`,
		`UPDATE users SET role = 'admin'`,
		`UPDATE users SET disabled_at = now()`,
		`UPDATE user_passwords SET hash = 'i'`,
		`DELETE FROM user_passwords`,
		`UPDATE invitations SET revoked_at = now()`,
		`DELETE FROM invitations`,
		`UPDATE service_accounts SET scopes = '{all}'`,
		`INSERT INTO service_account_credentials (id, service_account_id, org_id, secret_hash) VALUES (id(2), id(1), id(1), 'y')`,
		`UPDATE service_account_credentials SET revoked_at = now()`,
		`INSERT INTO api_keys (id, user_id, name, secret_hash) VALUES (id(2), id(1), 'l', 'y')`,
		`UPDATE api_keys SET revoked_at = now()`,
		`DELETE FROM ssh_keys`,
		`INSERT INTO sessions (id, user_id, secret_hash, expires_at) VALUES (id(2), id(1), 'y', now())`,
		`UPDATE sessions SET ended_at = now()`,
		`UPDATE sessions SET secret_hash = 'y'`,
		`UPDATE sessions SET expires_at = 'infinity'`,
		`INSERT INTO sign_in_links (secret_hash, user_id, expires_at) VALUES ('y', id(1), now())`,
		`UPDATE sign_in_links SET user_id = id(1)`,
		`INSERT INTO enrolment_tokens (secret_hash, node_id, expires_at) VALUES ('y', id(1), now())`,
		`INSERT INTO holds (id, node_id, kind, cause, owner, reason) VALUES (id(2), id(1), 'cordon', 'operator', 'a', 'r')`,
		`INSERT INTO agent_releases (version, platform, digest, size_bytes, metadata, signature, kid, expires_at, created_by) VALUES ('2', 'p', 'd', 1, '', '', 'k', now(), 'a')`,
		`UPDATE breaker_trips SET cleared_at = now(), cleared_by = 'a'`,
		`UPDATE fault_reports SET status = 'rejected', decided_by = 'a', decided_at = now(), decided_reason = 'r'`,
		`INSERT INTO webhook_endpoints (id, org_id, name, url, patterns, format, signature, secret_enc, created_by) VALUES (id(2), id(1), 'v', 'u', '{p}', 'slack', 'v1', 'x', 'a')`,
		`UPDATE webhook_endpoints SET url = 'v'`,
		`UPDATE webhook_endpoints SET disabled_at = now(), disabled_why = 'user'`,
		`UPDATE webhook_endpoints SET version = 2, secret_enc = 'y'`,
		`DELETE FROM webhook_endpoints`,
		`UPDATE dead_letters SET retry_at = now(), resolved_by = 'a', reason = 'r'`,
		`UPDATE dead_letters SET resolved_at = now(), resolution = 'discarded', resolved_by = 'a', reason = 'r'`,
		`INSERT INTO notification_preferences (id, scope) VALUES (id(2), 'user')`,
		`UPDATE notification_preferences SET choices = '{"x": {}}'`,
		`UPDATE suppressed_addresses SET lifted_at = now(), lifted_by = 'a'`,
		`INSERT INTO event_replays (id, consumer, repeat, actor, reason) VALUES (id(2), 'c', true, 'a', 'r')`,
		`INSERT INTO slot_inspections (slot_id, claimed_at, actor, reason) VALUES (id(1), now(), 'a', 'r')`,
		`INSERT INTO terminal_tokens (hash, org_id, project_id, allocation_id, principal, by_program, sign_in_id, scopes, limited, purpose, origin, correlation_id, expires_at) VALUES (sha256('x'), id(1), id(1), id(1), id(1), false, id(1), '{}', false, 'shell', '', '', now())`,
		`UPDATE terminal_sessions SET end_wanted = 'ended_by_user', end_by = 'a'`,
		`UPDATE terminal_sessions SET end_reason = 'exited', ended_at = now()`,
		`UPDATE certificates SET status = 'revoked', revoked_at = now(), reason = 'r'`,
		`UPDATE git_sources SET suspended_by = 'a', suspended_at = now(), suspended_reason = 'r'`,
		`UPDATE desired_objects SET suspended_by = 'a', suspended_at = now()`,
		`UPDATE desired_objects SET adopt_by = 's', adopt_until = now()`,
		`UPDATE plans SET decided_by = 'a', decided_at = now()`,
		`INSERT INTO plan_approvals (plan_id, approver, reason) VALUES (id(1), 'a', 'r')`,
		`UPDATE drift SET status = 'ignored', ignored_by = 'a', ignored_reason = 'r', ignored_until = now()`,
		`INSERT INTO ssh_keys (id, user_id, name, public_key, fingerprint) SELECT id(i), id(1), i::text, 'p', i::text FROM generate_series(2, 9) i`,
	}
	// When something was used, housekeeping, and what has a history of its own.
	free := []string{
		`UPDATE users SET signed_in_at = now(), version = version + 1`,
		`UPDATE service_accounts SET last_used_at = now()`,
		`UPDATE service_account_credentials SET last_used_at = now()`,
		`UPDATE api_keys SET last_used_at = now()`,
		`UPDATE sessions SET last_used_at = now(), grant_enc = NULL`,
		`UPDATE sign_in_links SET used_at = now()`,
		`DELETE FROM sessions`,
		`UPDATE enrolment_tokens SET used_at = now()`,
		`UPDATE allocations SET message = 'm'`,
		`UPDATE terminal_sessions SET sent_bytes = 1, connected = false`,
		`UPDATE certificates SET status = 'superseded'`,
		`UPDATE webhook_endpoints SET failing_since = now(), blocked_until = now(), retry_at = now()`,
		`UPDATE webhook_endpoints SET secret_enc = 'y'`, // sealed again
		`UPDATE dead_letters SET attempts = 2`,
		`UPDATE git_sources SET head = 'h', checked_at = now()`,
		`UPDATE desired_objects SET generation = 2`,
		`UPDATE plans SET status = 'applied'`,
		`UPDATE drift SET observed_at = now()`,
	}
	for _, sql := range append(demanded, free...) {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			undone := errors.New("undone")
			try := func(statements ...string) error {
				err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
					b := &pgx.Batch{}
					for _, s := range append([]string{`SET LOCAL ROLE ` + role}, statements...) {
						b.Queue(s)
					}
					b.Queue(`SET CONSTRAINTS ALL IMMEDIATE`) // what a commit does, without keeping anything
					if err := tx.SendBatch(t.Context(), b).Close(); err != nil {
						return err
					}
					return undone
				})
				if errors.Is(err, undone) {
					return nil
				}
				return err
			}
			table := strings.Fields(strings.NewReplacer("INSERT INTO ", "", "UPDATE ", "", "DELETE FROM ", "").Replace(sql))[0]
			err := try(sql)
			var refused *pgconn.PgError
			switch {
			case slices.Contains(free, sql) && err != nil:
				t.Errorf("rejected: %v", err)
			case slices.Contains(demanded, sql) && (!errors.As(err, &refused) || refused.Code != "23001" || refused.TableName != table || !strings.Contains(refused.Message, table)):
				t.Errorf("got %v", err)
			}
			if err := try(sql, `INSERT INTO audit_logs (id, actor, action, target_urn) VALUES (gen_random_uuid(), 'a', 'b', 'c')`); err != nil {
				t.Errorf("with its row: %v", err)
			}
		})
	}
}

// The list names every audited table. A missing table would let a server change its rows without an
// audit row.
func TestINV58TablesThatAreAudited(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.Tx(t).Query(t.Context(), `
		SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger
		WHERE tgparentid = 0 AND tgfoid = 'demand_audit'::regproc AND tgdeferrable AND tginitdeferred AND tgenabled = 'O' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	want := []string{
		"agent_releases", "allocations", "api_keys", "breaker_trips", "certificates", "dead_letters", "desired_objects", "drift", "enrolment_tokens", "event_replays", "fault_reports", "git_sources", "holds", "invitations", "key_sets", "ledger_transfers", "notification_preferences", "payment_disputes", "payment_mandates", "payment_sessions", "plan_approvals", "plans", "project_memberships", "projects",
		"refund_requests", "service_account_credentials", "service_accounts", "sessions", "sign_in_links", "signing_keys", "slot_inspections", "ssh_keys", "suppressed_addresses", "tenant_memberships", "tenants", "terminal_sessions", "terminal_tokens", "user_passwords", "users", "webhook_endpoints",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v: %v", got, err)
	}
}

func TestINV58CommitWithoutARowIsRejected(t *testing.T) {
	t.Parallel()
	db, role := asRole(t)
	const change, other = `UPDATE users SET role = 'admin'`, `DELETE FROM ssh_keys`
	for name, c := range map[string]struct {
		steps   []string
		refused bool
	}{
		"none":                               {[]string{change}, true},
		"before":                             {[]string{"audit", change}, false},
		"after":                              {[]string{change, "audit"}, false},
		"two changes, one row":               {[]string{change, "audit", other}, false},
		"the row rolled back":                {[]string{change, `SAVEPOINT s`, "audit", `ROLLBACK TO s`}, true},
		"the row with a released savepoint":  {[]string{change, `SAVEPOINT s`, "audit", `RELEASE s`}, false},
		"the change rolled back":             {[]string{`SAVEPOINT s`, change, `ROLLBACK TO s`}, false},
		"the role laid down before the end":  {[]string{change, `RESET ROLE`}, true},
		"constraints deferred by their name": {[]string{`SET CONSTRAINTS ALL DEFERRED`, change}, true},
		"only time of use":                   {[]string{`UPDATE users SET signed_in_at = now()`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := steps(t.Context(), db, role, c.steps...)
			var pgErr *pgconn.PgError
			if refused := errors.As(err, &pgErr) && pgErr.Code == "23001"; refused != c.refused || !refused && err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A row of another transaction, even of the same instant, is not this one's.
func TestINV58AnotherTransactionsRowIsNoRow(t *testing.T) {
	t.Parallel()
	db, role := asRole(t)
	err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO audit_logs (id, xid, actor, action, target_urn) VALUES (gen_random_uuid(), '3', 'a', 'b', 'c')`)
		b.Queue(`SET LOCAL ROLE ` + role)
		b.Queue(`DELETE FROM ssh_keys`)
		return tx.SendBatch(t.Context(), b).Close()
	})
	if err == nil {
		t.Error("went through")
	}
}

// AT-080: rolled back, none.
func TestRolledBackChangeLeavesNoRow(t *testing.T) {
	t.Parallel()
	db, role := asRole(t)
	if err := steps(t.Context(), db, role, "audit", `UPDATE users SET role = 'admin'`, `SELECT 1 / 0`); err == nil {
		t.Fatal("went through")
	}
	var n int
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows: %v", n, err)
	}
}

// INV-29: a role that was granted everything still changes nothing.
func TestINV29NoRoleChangesRowsOrSeals(t *testing.T) {
	t.Parallel()
	db, role := asRole(t)
	write(t, db, audit.Entry{By: audit.By{Actor: "user:u"}, Action: "a.b", Target: "t"})
	sealAll(t, &audit.Service{DB: db})
	for _, table := range []string{"audit_logs", "audit_seals"} {
		for _, sql := range []string{"DELETE FROM " + table, "TRUNCATE " + table, "UPDATE " + table + " SET org_id = NULL"} {
			for _, who := range []string{role, "NONE"} { // NONE: the superuser itself
				err := steps(t.Context(), db, who, sql)
				var pgErr *pgconn.PgError
				if !errors.As(err, &pgErr) || pgErr.Code != "23001" {
					t.Errorf("%s as %s: %v", sql, who, err)
				}
			}
		}
	}
}

// What it costs a change: one probe of an index of one partition.
func TestDemandIsOneProbe(t *testing.T) {
	t.Parallel()
	tx := pgtest.Tx(t)
	fill(t, tx, 1000)
	if _, err := tx.Exec(t.Context(), `SET LOCAL enable_bitmapscan = off`); err != nil { // as the function has it
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
		SELECT EXISTS (SELECT FROM audit_logs WHERE at = now() AND xid = pg_current_xact_id())`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	plan := strings.Join(lines, "\n")
	scan := regexp.MustCompile(`Index Scan .*\(actual rows=1 loops=1\)`)
	if err != nil || len(scan.FindAllString(plan, -1)) != 1 || strings.Count(plan, "Scan") != 1 || !strings.Contains(plan, "Subplans Removed: 3") {
		t.Errorf("%v\n%s", err, plan)
	}
}
