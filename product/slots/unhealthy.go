package slots

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Unhealthy lists the allocations with an unhealthy device or node, by id after the given one. The caller reads
// page by page.
func (s *Service) Unhealthy(ctx context.Context, after ids.Allocation, limit int) ([]ids.Allocation, error) {
	rows, err := s.DB.Query(ctx, selectUnhealthy, after.UUID, limit)
	if err != nil {
		return nil, fmt.Errorf("listing what is unhealthy: %w", err)
	}
	var list []ids.Allocation
	var id ids.Allocation
	_, err = pgx.ForEachRow(rows, []any{&id.UUID}, func() error {
		list = append(list, id)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing what is unhealthy: %w", err)
	}
	return list, nil
}

// UnhealthySince reports, in tx, whether a device of the allocation or its node is unhealthy, and since
// which report.
func (s *Service) UnhealthySince(ctx context.Context, tx pgx.Tx, id ids.Allocation) (since time.Time, unhealthy bool, err error) {
	var at *time.Time
	if err := tx.QueryRow(ctx, selectUnhealthySince, id.UUID).Scan(&at); err != nil {
		return time.Time{}, false, fmt.Errorf("reading the health of what %s holds: %w", id, err)
	}
	if at == nil {
		return time.Time{}, false, nil
	}
	return *at, true, nil
}
