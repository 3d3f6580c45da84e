package allocation

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// Reprice applies the SKU's current price to its live allocations from now on; earlier usage is charged
// at the old price. It locks the rows before it reads the intervals. An allocation that becomes active
// concurrently has therefore either opened its interval by then, or opens it at the new price.
func (s *Service) Reprice(ctx context.Context, tx pgx.Tx, sku, currency string, price money.Minor) error {
	b := &pgx.Batch{}
	b.Queue(setPrices, sku, currency, price)
	metering.QueueReprice(b, sku, currency, price)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("setting the price of what is used of %s: %w", sku, err)
	}
	return nil
}

// priced sets the current price for an allocation that becomes active. The price in the request may be
// outdated if the catalogue changed concurrently: the change could not see the uncommitted row.
func (s *Service) priced(ctx context.Context, tx pgx.Tx, a Allocation) (Allocation, error) {
	sku, err := s.Catalog.GetIn(ctx, tx, a.SKU)
	if errs.CodeOf(err) == errs.NotFound {
		return a, nil
	}
	if err != nil || sku.Currency != a.Currency || sku.PriceMinor == a.PriceMinor {
		return a, err
	}
	if _, err := tx.Exec(ctx, setPrice, a.ID, sku.PriceMinor); err != nil {
		return a, fmt.Errorf("setting the price of %s: %w", a.ID, err)
	}
	a.PriceMinor = sku.PriceMinor
	return a, nil
}

// Pause stops charging for an active allocation whose row the caller has locked, because of the last
// observation. It reports whether the allocation was charged until now.
func (s *Service) Pause(ctx context.Context, tx pgx.Tx, a Allocation, by metering.Cause, seen metering.Observation) (bool, error) {
	if a.State != Active || a.Paused != "" {
		return false, nil
	}
	paused, err := metering.Pause(ctx, tx, a.ID, by, seen)
	if err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, setPaused, a.ID, by); err != nil {
		return false, fmt.Errorf("pausing %s: %w", a.ID, err)
	}
	b := &pgx.Batch{}
	s.queueUnsequenced(b, a, "health:", SubjectDegraded, DegradedEvent{Allocation: a.ID.String(), Cause: by, Since: seen.ObservedAt})
	return paused, send(ctx, tx, b, a)
}

// Resume starts charging again, because the node reported the allocation ready.
func (s *Service) Resume(ctx context.Context, tx pgx.Tx, a Allocation, seen metering.Observation) error {
	if a.State != Active || a.Paused == "" {
		return nil
	}
	b := &pgx.Batch{}
	b.Queue(setPaused, a.ID, "")
	metering.QueueOpen(b, a.interval(), metering.ObservedAgain, &seen)
	s.queueUnsequenced(b, a, "health:", SubjectRecovered, RecoveredEvent{Allocation: a.ID.String(), Cause: a.Paused, ChargedFrom: s.Clock.Now()})
	return send(ctx, tx, b, a)
}

// Paused lists active allocations that are not charged for, by id, after the
// given one.
func (s *Service) Paused(ctx context.Context, q pg.Queryer, after ids.Allocation, limit int) ([]ids.Allocation, error) {
	rows, err := q.Query(ctx, selectPaused, after.UUID, limit)
	if err != nil {
		return nil, fmt.Errorf("listing what is paused: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[ids.Allocation])
	if err != nil {
		return nil, fmt.Errorf("listing what is paused: %w", err)
	}
	return list, nil
}
