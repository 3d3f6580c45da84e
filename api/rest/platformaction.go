package rest

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// recordPlatformAction writes the audit row of an action that concerns no tenant.
func recordPlatformAction(ctx context.Context, db pg.Pool, c identity.Caller, action, target string) error {
	b := &pgx.Batch{}
	audit.Queue(b, audit.Entry{By: c.Cause(), Action: action, Target: target})
	return db.SendBatch(pg.WithScope(ctx, c.Scope(true)), b).Close()
}
