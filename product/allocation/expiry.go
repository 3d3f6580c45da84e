package allocation

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/platform/event"
)

// ExpiringEvent is the payload of provisioning.expiring.
type ExpiringEvent struct {
	Allocation string    `json:"allocation_id"`
	ExpiresAt  time.Time `json:"expires_at"`
}

// WarnExpiring announces the end of active allocations as early as the policies of their tenants state, and returns
// the number of warnings. Each end is announced once.
func (s *Service) WarnExpiring(ctx context.Context) (warned int, err error) {
	platform, own := s.ExpiryWarnings()
	tenants, warnings := []uuid.UUID{}, []time.Duration{}
	for tenant, warning := range own {
		tenants, warnings = append(tenants, tenant.UUID), append(warnings, warning)
	}
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, warnExpiring, platform, tenants, warnings) // CollectRows returns the error
		due, err := pgx.CollectRows(rows, scan)
		if err != nil {
			return fmt.Errorf("reading allocations that expire: %w", err)
		}
		b := &pgx.Batch{}
		for _, a := range due {
			f := s.event(a, SubjectExpiring, ExpiringEvent{a.ID.String(), *a.ExpiresAt})
			f.Aggregate, f.Sequence = "expiring:"+a.ID.String(), s.Clock.Now().UnixMicro() // its state does not change
			event.Queue(b, f)
		}
		warned = len(due)
		return tx.SendBatch(ctx, b).Close()
	})
	return warned, err
}
