package migrations_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/migrations"
)

// cluster is one without roles of ours.
func cluster(t *testing.T) *pgcluster.Cluster {
	t.Helper()
	c, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(pgcluster.Immediate); err != nil {
			t.Error(err)
		}
	})
	return c
}

func open(t *testing.T, url, role string) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.OpenAs(t.Context(), url, role, "test", 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func must(t *testing.T, db pg.Queryer, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// Several databases of one cluster, and several servers on each, start at once:
// roles are one for all of them, and no lock reaches over databases.
func TestManyMigrateAtOnceAsAnOwnerWhoIsNoSuperuser(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	admin := open(t, c.URL(), "")
	must(t, admin, `CREATE ROLE keeper LOGIN CREATEROLE`)
	at := func(n int) string {
		return strings.Replace(c.URLAs("keeper"), "/postgres?", fmt.Sprintf("/db%d?", n), 1)
	}
	var all errgroup.Group
	for n := range 3 {
		must(t, admin, fmt.Sprintf(`CREATE DATABASE db%d OWNER keeper`, n))
		for range 2 {
			pool := open(t, at(n), "")
			all.Go(func() error { return migrations.Up(t.Context(), pool) })
		}
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}

	keeper := open(t, at(1), "")
	must(t, keeper, twoTenants)
	api := open(t, at(1), "gpuaas_api") // the owner becomes the role
	if found := findings(t, api); len(found) != 0 {
		t.Errorf("not fit to serve: %v", found)
	}
	var who string
	if err := api.QueryRow(t.Context(), `SELECT current_user || ' ' || count(*) FROM tenants`).Scan(&who); err != nil || who != "gpuaas_api 0" {
		t.Errorf("got %q, %v", who, err)
	}
	ctx := pg.WithScope(t.Context(), pg.Scope{Tenant: idA})
	if err := (pg.Scoped{Pool: api}).QueryRow(ctx, `SELECT string_agg(id::text, ' ') FROM tenants`).Scan(&who); err != nil || who != idA {
		t.Errorf("got %q, %v", who, err)
	}
	// What runs with the owner's rights finds all tenants' rows.
	work := open(t, at(1), "gpuaas_work")
	must(t, work, `SELECT make_partitions(5)`, `SELECT mark_due('Node', gen_random_uuid(), now(), 'test')`, `SELECT ledger_await_transfers()`)
}

func TestRightsComeBackWithTheNextStart(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	owner := open(t, c.URL(), "")
	for range 2 { // the second finds nothing to do
		if err := migrations.Up(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	must(t, owner, `GRANT DELETE ON audit_logs TO gpuaas_api`, `CREATE TABLE left_over (i int)`, `GRANT ALL ON left_over TO PUBLIC`,
		`UPDATE applied_grants SET hash = 'of another release'`)
	if err := migrations.Up(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`DELETE FROM audit_logs`, `SELECT i FROM left_over`} {
		if _, err := open(t, c.URLAs("gpuaas_api"), "gpuaas_api").Exec(t.Context(), sql); !forbidden(err) {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
