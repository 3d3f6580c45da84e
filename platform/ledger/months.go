package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// MonthSum is the sum of the entries of one kind in one month, UTC.
type MonthSum struct {
	Month time.Time // its first moment
	Kind  Kind
	Sum   money.Minor
}

// MonthSums sums the tenant's entries of [from, to) by month and kind, sorted by month.
func (s *Service) MonthSums(ctx context.Context, q pg.Queryer, tenant ids.Tenant, from, to time.Time) ([]MonthSum, error) {
	rows, err := q.Query(ctx, sumByMonth, tenant.UUID, timeOrNull(from), timeOrNull(to))
	if err != nil {
		return nil, fmt.Errorf("summing months of tenant %s: %w", tenant, err)
	}
	sums, err := pgx.CollectRows(rows, pgx.RowToStructByPos[MonthSum])
	if err != nil {
		return nil, fmt.Errorf("summing months of tenant %s: %w", tenant, err)
	}
	return sums, nil
}

// Since returns the posting time of the tenant's first entry, or not found.
func (s *Service) Since(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (at time.Time, err error) {
	err = q.QueryRow(ctx, selectFirst, tenant.UUID).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, errs.New(errs.NotFound, "the tenant has no ledger entries")
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the first entry of tenant %s: %w", tenant, err)
	}
	return at.UTC(), nil
}

// EachMovement shows do what is not use, as EachEntry does. Of a month of use most
// entries are, and none of them leaves the database.
func (s *Service) EachMovement(ctx context.Context, tenant ids.Tenant, from, to time.Time, do func(Entry) error) error {
	for after := int64(0); ; {
		rows, err := s.DB.Query(ctx, selectMovements, tenant.UUID, timeOrNull(from), timeOrNull(to), after, page)
		if err != nil {
			return fmt.Errorf("reading movements of tenant %s: %w", tenant, err)
		}
		list, err := pgx.CollectRows(rows, scanEntry)
		if err != nil {
			return fmt.Errorf("reading movements of tenant %s: %w", tenant, err)
		}
		for _, e := range list {
			if err := do(e); err != nil {
				return err
			}
			after = e.ID
		}
		if len(list) < page {
			return nil
		}
	}
}
