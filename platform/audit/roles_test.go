package audit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// become opens the database as a server does that logs in as who migrates, and
// becomes its role as the session begins.
func become(t *testing.T, db *pgxpool.Pool, role string) *pgxpool.Pool {
	t.Helper()
	other, err := pg.OpenAs(context.WithoutCancel(t.Context()), db.Config().ConnString(), role, "test", 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	return other
}

// The restrictions of a server apply however it has obtained its role.
func TestINV58ServersAreHeld(t *testing.T) {
	t.Parallel()
	db, _ := asRole(t)
	ctx := pg.WithScope(t.Context(), pg.Platform)
	for name, pool := range map[string]*pgxpool.Pool{
		"logged in as it": pgtest.As(t, db, "gpuaas_api"), "become it": become(t, db, "gpuaas_api"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := func(audited bool) error {
				b := &pgx.Batch{}
				b.Queue(`UPDATE users SET role = 'operator'`).Exec(func(tag pgconn.CommandTag) error {
					if tag.RowsAffected() != 1 {
						return errors.New("nothing was changed")
					}
					return nil
				})
				if audited {
					audit.Queue(b, audit.Entry{By: audit.By{Actor: "user:u"}, Action: "a.b", Target: "t"})
				}
				return pg.Commit(ctx, pg.Scoped{Pool: pool}, b, func() {})
			}
			var refused *pgconn.PgError
			if err := change(false); !errors.As(err, &refused) || refused.Code != "23001" || refused.TableName != "users" {
				t.Errorf("without a row: %v", err)
			}
			if err := change(true); err != nil {
				t.Errorf("with its row: %v", err)
			}
		})
	}
}

// The row may be one that the changer cannot read: of no tenant.
func TestINV58RowThatTheChangerCannotSeeCounts(t *testing.T) {
	t.Parallel()
	db, _ := asRole(t)
	const one = "00000000-0000-0000-0000-000000000001"
	ctx := pg.WithScope(t.Context(), pg.Scope{Tenant: one, Principal: one})
	b := &pgx.Batch{}
	b.Queue(`UPDATE tenants SET name = 'other'`)
	audit.Queue(b, audit.Entry{By: audit.By{Actor: "user:u"}, Action: "a.b", Target: "t"})
	api := pgtest.Scoped(t, db)
	if err := pg.Commit(ctx, api, b, func() {}); err != nil {
		t.Fatal(err)
	}
	if r, err := (&audit.Service{DB: api}).Search(ctx, audit.Query{Limit: 1}); err != nil || len(r) != 0 {
		t.Errorf("it sees %+v, %v", r, err)
	}
}

// Each role does its part with the rights that it has, and no other's.
func TestRolesSearchAndSeal(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	write(t, db, audit.Entry{By: audit.By{Actor: "user:u"}, Action: "a.b", Target: "t"})
	api, work := &audit.Service{DB: pgtest.Scoped(t, db)}, &audit.Service{DB: pgtest.As(t, db, "gpuaas_work")}
	if r := sealAll(t, work); !r.OK() || r.Chains[0].Rows != 1 {
		t.Errorf("sealed %+v", r)
	}
	if _, err := work.DB.Exec(t.Context(), `SELECT make_partitions(12)`); err != nil {
		t.Errorf("the role that works makes no partitions: %v", err)
	}
	if err := api.Seal(pg.WithScope(t.Context(), pg.Platform)); err == nil {
		t.Error("the role of the API seals")
	}
	for scope, want := range map[pg.Scope]int{pg.Platform: 1, {}: 0} {
		ctx := pg.WithScope(t.Context(), scope)
		if r, err := api.Search(ctx, audit.Query{Limit: 9}); err != nil || len(r) != want {
			t.Errorf("%+v: %d records, %v", scope, len(r), err)
		}
		n := 0
		if err := api.Export(ctx, audit.Query{}, func(audit.Record) error { n++; return nil }); err != nil || n != want {
			t.Errorf("%+v: exported %d, %v", scope, n, err)
		}
	}
	for _, sql := range []string{`UPDATE audit_logs SET actor = 'x'`, `DELETE FROM audit_seals`, `TRUNCATE audit_logs`, `TRUNCATE audit_seals`} {
		for _, role := range []string{"gpuaas_api", "gpuaas_node", "gpuaas_reconcile", "gpuaas_work", "gpuaas_relay", "gpuaas_terminal"} {
			var refused *pgconn.PgError
			if err := steps(t.Context(), db, role, sql); !errors.As(err, &refused) || refused.Code != "42501" {
				t.Errorf("INV-29: %s as %s: %v", sql, role, err)
			}
		}
	}
}
