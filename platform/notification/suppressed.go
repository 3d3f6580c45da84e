package notification

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Suppressed is an e-mail address that receives no mail.
type Suppressed struct {
	ID              uuid.UUID
	Address, Reason string
	CreatedAt       time.Time
}

// Suppressions lists the suppressed addresses, the newest first, after an id.
func (s *Service) Suppressions(ctx context.Context, after uuid.UUID, limit int) ([]Suppressed, error) {
	if after == uuid.Nil {
		after = uuid.Max
	}
	return pg.List(ctx, s.DB, "suppressed addresses", selectSuppressed, pgx.RowToStructByPos[Suppressed], after, limit)
}

// Lift returns the statements that end a suppression. The audit row does not contain the address.
func (s *Service) Lift(c identity.Caller, id uuid.UUID, reason string) func(*pgx.Batch) {
	return func(b *pgx.Batch) {
		b.Queue(liftSuppression, id, c.Actor()).Exec(pg.OrElse(errs.New(errs.NotFound, "no such suppressed address")))
		audit.Queue(b, audit.Entry{
			By: c.Cause(), Action: "suppressed_address.lift", Target: s.Naming.Name("", "", "suppressed-address", id.String()).String(),
			After: map[string]any{"reason": reason},
		})
	}
}
