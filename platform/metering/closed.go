package metering

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

const selectOpen = `
	SELECT allocation_id FROM usage_records WHERE allocation_id = ANY($1::uuid[]) AND end_s IS NULL ORDER BY 1`

// Open lists those of the allocations that have an open interval, by id.
func (s *Service) Open(ctx context.Context, of []ids.Allocation) ([]ids.Allocation, error) {
	rows, err := s.DB.Query(ctx, selectOpen, plain(of))
	if err != nil {
		return nil, fmt.Errorf("listing open intervals: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[ids.Allocation])
	if err != nil {
		return nil, fmt.Errorf("listing open intervals: %w", err)
	}
	return list, nil
}

// inProject is the condition of ledger entries about usage of a project. It reads the intervals of one allocation. The
// reference of a transfer for stored bytes ends with the project.
const inProject = `(EXISTS (SELECT FROM usage_records u WHERE u.allocation_id = e.allocation_id AND u.org_id = $1 AND u.project_id = $8::uuid)
	OR t.kind = 'storage' AND split_part(t.reference, ' ', 2) = $8::uuid::text)`

// InProject selects the entries of a tenant's ledger that are about usage of one of its projects.
func InProject(project ids.Project) ledger.Subset {
	return ledger.Subset{Condition: inProject, Value: project}
}

const selectLag = `
	SELECT coalesce(metering_clock() - coalesce((SELECT max(to_s) FROM usage_passes), (SELECT least((SELECT min(start_s) FROM usage_records), (SELECT min(start_s) FROM usage_storage)))), 0)`

// Lag returns the age of the oldest usage that is not charged.
func (s *Service) Lag(ctx context.Context) (time.Duration, error) {
	var seconds int64
	if err := s.DB.QueryRow(ctx, selectLag).Scan(&seconds); err != nil {
		return 0, fmt.Errorf("reading the lag of accrual: %w", err)
	}
	return time.Duration(max(seconds, 0)) * time.Second, nil
}

var sumClosed = `
	SELECT coalesce(sum(r.end_s - r.start_s), 0)::bigint, coalesce(sum(` + due("(r.end_s - r.start_s)") + `), 0)::bigint
		- coalesce(sum((SELECT sum(c.amount_minor) FROM usage_credits c WHERE c.record_id = r.id)), 0)::bigint
	FROM usage_records r WHERE r.allocation_id = $1 AND r.end_s IS NOT NULL`

// Closed returns the duration and the cost of an allocation's closed intervals, charged or not, without
// fault credits.
func Closed(ctx context.Context, q pg.Queryer, a ids.Allocation) (seconds int64, cost money.Minor, err error) {
	if err := q.QueryRow(ctx, sumClosed, a.UUID).Scan(&seconds, &cost); err != nil {
		return 0, 0, fmt.Errorf("summing usage of %s: %w", a, err)
	}
	return seconds, cost, nil
}
