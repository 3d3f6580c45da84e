package change

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/reconciler"
)

// IgnoreDrift lives with a difference until a time; then it is open again if it is
// still there.
func (s *Service) IgnoreDrift(ctx context.Context, ch identity.Change[reconciler.Drift], id uuid.UUID, reason string, until time.Time) (reconciler.Drift, error) {
	made, err := do(ctx, s, ch, func(tx pgx.Tx) (reconciler.Drift, record, error) {
		d, err := s.History.Ignore(ctx, tx, id, ch.Caller.Actor(), reason, until)
		return d, s.entry("drift.ignore", "drift", id.String(), nil, map[string]any{"field": d.Field, "reason": reason, "until": until}), err
	})
	if err == nil {
		s.Desired.Hint() // the object is due
	}
	return made, err
}
