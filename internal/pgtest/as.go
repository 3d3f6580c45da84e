package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// As opens the database of a Clone again as one of the servers' roles, such as gpuaas_api. Clone
// connects as a superuser, to whom no right is denied.
func As(t testing.TB, pool *pgxpool.Pool, role string) *pgxpool.Pool {
	t.Helper()
	cfg := pool.Config()
	cfg.ConnConfig.User = role
	cfg.MinConns, cfg.MaxConns = 0, poolSize
	other, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	return other
}

// Scoped is As for the role of the API, behind which every statement needs a scope
// in its context: pg.WithScope.
func Scoped(t testing.TB, pool *pgxpool.Pool) pg.Scoped {
	t.Helper()
	return pg.Scoped{Pool: As(t, pool, "gpuaas_api")}
}
