package manage

import (
	"context"
	"fmt"
	"time"
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

// Counts counts the live allocations.
func (s *Service) Counts(ctx context.Context, now time.Time) (c Counts, err error) {
	err = s.DB.QueryRow(ctx, countAll, now.Add(-s.ReleaseDeadline())).Scan(&c.Active, &c.Queued, &c.ReleaseFailed, &c.Paused, &c.Overdue)
	if err != nil {
		return Counts{}, fmt.Errorf("counting allocations: %w", err)
	}
	return c, nil
}
