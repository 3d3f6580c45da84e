package rest

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// JobAudit returns the function that records what an administrator does to a job.
func JobAudit(db pg.Pool) func(ctx context.Context, c identity.Caller, action, target string) error {
	return func(ctx context.Context, c identity.Caller, action, target string) error {
		b := &pgx.Batch{}
		audit.Queue(b, audit.Entry{Tenant: c.Tenant, Actor: c.Actor(), Action: action, Target: target, CorrelationID: c.CorrelationID})
		return db.SendBatch(pg.WithScope(ctx, c.Scope(true)), b).Close()
	}
}
