package observed

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// QueueAllocations adds a read to b, of the last reported state of several allocations. The map is filled when b is sent.
// Allocations without a report are left out.
func QueueAllocations(b *pgx.Batch, of []uuid.UUID) map[ids.Allocation]Allocation {
	seen := map[ids.Allocation]Allocation{}
	b.Queue(selectMany, of).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Allocation])
		if err != nil {
			return fmt.Errorf("reading reports: %w", err)
		}
		for _, a := range list {
			seen[a.ID] = a
		}
		return nil
	})
	return seen
}

// AppliedSpec is the spec of a desired object that a package has last applied.
type AppliedSpec struct {
	Applied

	ObservedAt time.Time
	Failure    string // of the last failure; empty after a success
}

// AppliedSpecs reads it for several declarations; those of which nothing was carried
// out are left out.
func (s *Store) AppliedSpecs(ctx context.Context, of []uuid.UUID) (map[uuid.UUID]AppliedSpec, error) {
	rows, err := s.DB.Query(ctx, selectCarried, of)
	if err != nil {
		return nil, fmt.Errorf("reading applied specs: %w", err)
	}
	all := make(map[uuid.UUID]AppliedSpec, len(of))
	var c AppliedSpec
	_, err = pgx.ForEachRow(rows, []any{&c.UID, &c.Generation, &c.SpecHash, &c.Gone, &c.ObservedAt, &c.Failures, &c.FailedGeneration, &c.FailedEpoch, &c.Failure}, func() error {
		all[c.UID] = c
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading applied specs: %w", err)
	}
	return all, nil
}

// Old lists the allocations, by id after the given one, of whose node nothing was
// heard for longer than that.
func (s *Store) Old(ctx context.Context, than time.Duration, after ids.Allocation, limit int) ([]ids.Allocation, error) {
	rows, err := s.DB.Query(ctx, selectOld, than, after.UUID, limit)
	if err != nil {
		return nil, fmt.Errorf("listing nodes without a report for %s: %w", than, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[ids.Allocation])
	if err != nil {
		return nil, fmt.Errorf("listing nodes without a report for %s: %w", than, err)
	}
	return list, nil
}

// StaleNodes counts the nodes whose last report has gone stale, of all that ever
// reported.
func (s *Store) StaleNodes(ctx context.Context) (silent, all int, err error) {
	if err := s.DB.QueryRow(ctx, countSilent).Scan(&silent, &all); err != nil {
		return 0, 0, fmt.Errorf("counting silent nodes: %w", err)
	}
	return silent, all, nil
}

// LastReports returns the time of the last report of each node, for metrics.
func (s *Store) LastReports(ctx context.Context) (map[uuid.UUID]time.Time, error) {
	rows, err := s.DB.Query(ctx, selectLast)
	if err != nil {
		return nil, fmt.Errorf("reading when nodes spoke: %w", err)
	}
	last := map[uuid.UUID]time.Time{}
	var id uuid.UUID
	var at time.Time
	if _, err := pgx.ForEachRow(rows, []any{&id, &at}, func() error {
		last[id] = at
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading when nodes spoke: %w", err)
	}
	return last, nil
}
