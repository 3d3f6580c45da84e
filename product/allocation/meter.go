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

// Reprice gives the living allocations of a SKU its price, from this moment on;
// what they have used keeps the price that it was used at. Their rows are locked
// before their intervals are read: one that is becoming active has either opened
// its interval by then, or opens it at the new price.
func (s *Service) Reprice(ctx context.Context, tx pgx.Tx, sku, currency string, price money.Minor) error {
	b := &pgx.Batch{}
	b.Queue(setPrices, sku, currency, price)
	metering.QueueReprice(b, sku, currency, price)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("setting the price of what is used of %s: %w", sku, err)
	}
	return nil
}

// priced has the price of now for an allocation that begins to cost. It was asked
// for at another one if the catalogue changed beside the request, whose row the
// change could not see yet.
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

// Pause stops charging for an active allocation whose row the caller has locked,
// because of what was seen last; it says whether it was charged for until now.
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
	return paused, nil
}

// Resume charges on, because it was seen ready again.
func (s *Service) Resume(ctx context.Context, tx pgx.Tx, a Allocation, seen metering.Observation) error {
	if a.State != Active || a.Paused == "" {
		return nil
	}
	b := &pgx.Batch{}
	b.Queue(setPaused, a.ID, "")
	metering.QueueOpen(b, a.interval(), metering.ObservedAgain, &seen)
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
