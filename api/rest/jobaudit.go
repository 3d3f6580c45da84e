package rest

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// recordJobChange writes the audit row of an administrator's change of a job, which concerns no tenant.
func recordJobChange(ctx context.Context, db pg.Pool, c identity.Caller, action, target string) error {
	b := &pgx.Batch{}
	audit.Queue(b, audit.Entry{By: c.Cause(), Action: action, Target: target})
	return db.SendBatch(pg.WithScope(ctx, c.Scope(true)), b).Close()
}
