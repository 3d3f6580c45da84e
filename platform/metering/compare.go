package metering

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Difference is a charge that does not follow from what was used.
type Difference struct {
	Tick       Tick
	Account    uuid.UUID
	Allocation ids.Allocation // zero for stored bytes
	Project    ids.Project    // of stored bytes
	Used       money.Minor    // by the intervals
	Charged    money.Minor    // by the ledger
}

// Compare derives every charged tick of [from, to) again from the intervals and compares it with the
// ledger. A difference exists only if a row was changed with the triggers disabled.
func (s *Service) Compare(ctx context.Context, from, to time.Time) (ticks int, found []Difference, err error) {
	rows, err := s.DB.Query(ctx, selectPasses, from.Unix(), to.Unix())
	if err != nil {
		return 0, nil, fmt.Errorf("reading charged ticks: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanTick)
	if err != nil {
		return 0, nil, fmt.Errorf("reading charged ticks: %w", err)
	}
	for _, t := range list {
		if found, err = s.compare(ctx, t, found); err != nil {
			return ticks, found, err
		}
		ticks++
	}
	return ticks, found, nil
}

func (s *Service) compare(ctx context.Context, t Tick, found []Difference) ([]Difference, error) {
	rows, err := s.DB.Query(ctx, compareUsage, t.From.Unix(), t.To.Unix())
	if err != nil {
		return found, fmt.Errorf("deriving the tick up to %s: %w", t.To.Format(time.RFC3339), err)
	}
	d := Difference{Tick: t}
	_, err = pgx.ForEachRow(rows, []any{&d.Account, &d.Allocation.UUID, &d.Used, &d.Charged}, func() error {
		found = append(found, d)
		return nil
	})
	if err != nil {
		return found, fmt.Errorf("deriving the tick up to %s: %w", t.To.Format(time.RFC3339), err)
	}
	d = Difference{Tick: t}
	if rows, err = s.DB.Query(ctx, compareStored, t.From.Unix(), t.To.Unix()); err == nil {
		_, err = pgx.ForEachRow(rows, []any{&d.Account, &d.Project.UUID, &d.Used, &d.Charged}, func() error {
			found = append(found, d)
			return nil
		})
	}
	if err != nil {
		return found, fmt.Errorf("deriving the stored bytes up to %s: %w", t.To.Format(time.RFC3339), err)
	}
	return found, nil
}
