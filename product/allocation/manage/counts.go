package manage

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Counts are the allocations of all tenants that operators watch.
type Counts struct {
	Active, Queued, ReleaseFailed, Paused int64
	Overdue                               int64 // releases past their deadline
}

const countAll = `
	SELECT count(*) FILTER (WHERE status = 'active'), count(*) FILTER (WHERE status = 'requested' AND node_id IS NULL),
		count(*) FILTER (WHERE status = 'release_failed'), count(*) FILTER (WHERE paused <> ''),
		count(*) FILTER (WHERE status = 'releasing' AND status_at < $1)
	FROM allocations WHERE status NOT IN ('released', 'failed')`

// Group is the number of live allocations of a state and an SKU.
type Group struct {
	Status, SKU string
	N           int64
}

const countGroups = `SELECT status, sku, count(*) FROM allocations WHERE status NOT IN ('released', 'failed') GROUP BY status, sku`

// Groups counts the live allocations by state and SKU.
func (s *Service) Groups(ctx context.Context) ([]Group, error) {
	rows, _ := s.DB.Query(ctx, countGroups) // CollectRows returns the error
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Group])
	if err != nil {
		return nil, fmt.Errorf("counting allocations by state: %w", err)
	}
	return list, nil
}

// Counts counts the live allocations.
func (s *Service) Counts(ctx context.Context, now time.Time) (c Counts, err error) {
	err = s.DB.QueryRow(ctx, countAll, now.Add(-s.ReleaseDeadline())).Scan(&c.Active, &c.Queued, &c.ReleaseFailed, &c.Paused, &c.Overdue)
	if err != nil {
		return Counts{}, fmt.Errorf("counting allocations: %w", err)
	}
	return c, nil
}
