package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Entry is a line of a tenant's balance: what a transfer added to it.
type Entry struct {
	ID          int64
	At          time.Time // when it counts: of usage, the last second that it covers
	Transfer    uuid.UUID
	Kind        Kind
	Reference   string
	Note        string
	Allocation  *ids.Allocation
	AmountMinor money.Minor // negative for what the tenant pays
	Currency    string
}

// Filter picks entries. What is zero does not restrict.
type Filter struct {
	From, To   time.Time // from ≤ at < to
	Kind       Kind
	Allocation ids.Allocation
	Subset     Subset // of allocations
	After      int64  // an entry's id: the next ones after it
	Limit      int    // zero means as many as a page of EachEntry has
}

// Subset selects entries by rows of another package, whose text names its own tables: an SQL condition on
// e.allocation_id, with the parameter $8. The zero value selects all.
type Subset struct {
	Condition string
	Value     any
}

// Entries lists the entries of the tenant's balance, by id. A later posting time may have a lower id,
// because ids follow the time of writing, and only approximately.
func (s *Service) Entries(ctx context.Context, tenant ids.Tenant, f Filter) ([]Entry, error) {
	if f.Limit <= 0 {
		f.Limit = page
	}
	args := []any{tenant.UUID, timeOrNull(f.From), timeOrNull(f.To), f.Kind, f.Allocation, f.After, f.Limit}
	if f.Subset.Condition != "" {
		args = append(args, f.Subset.Value)
	}
	rows, err := s.DB.Query(ctx, f.Subset.Statement(), args...)
	if err != nil {
		return nil, fmt.Errorf("reading entries of tenant %s: %w", tenant, err)
	}
	list, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("reading entries of tenant %s: %w", tenant, err)
	}
	return list, nil
}

// timeOrNull returns NULL for a bound that is not set, so that one prepared statement serves all filters.
func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func scanEntry(row pgx.CollectableRow) (e Entry, err error) {
	var allocation *uuid.UUID
	err = row.Scan(&e.ID, &e.At, &e.Transfer, &e.Kind, &e.Reference, &e.Note, &allocation, &e.AmountMinor, &e.Currency)
	e.At = e.At.UTC()
	if allocation != nil {
		a := ids.From[ids.Allocation](*allocation)
		e.Allocation = &a
	}
	return e, err
}

// page is about 400 kB. No statement runs long, and none is open while a slow reader processes a page.
const page = 2_000

// EachEntry calls do for each entry of the filter, by id, with the memory of one page. It ends with the first error of
// do.
func (s *Service) EachEntry(ctx context.Context, tenant ids.Tenant, f Filter, do func(Entry) error) error {
	for left := f.Limit; ; {
		f.Limit = page
		if left > 0 {
			f.Limit = min(page, left)
		}
		list, err := s.Entries(ctx, tenant, f)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := do(e); err != nil {
				return err
			}
			f.After = e.ID
		}
		if left -= len(list); len(list) < f.Limit || left == 0 {
			return nil
		}
	}
}

// SumByKind sums the tenant's entries of [from, to).
func (s *Service) SumByKind(ctx context.Context, q pg.Queryer, tenant ids.Tenant, from, to time.Time) (map[Kind]money.Minor, error) {
	rows, err := q.Query(ctx, sumByKind, tenant.UUID, timeOrNull(from), timeOrNull(to))
	if err != nil {
		return nil, fmt.Errorf("summing entries of tenant %s: %w", tenant, err)
	}
	sums := map[Kind]money.Minor{}
	var kind Kind
	var sum money.Minor
	_, err = pgx.ForEachRow(rows, []any{&kind, &sum}, func() error {
		sums[kind] = sum
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("summing entries of tenant %s: %w", tenant, err)
	}
	return sums, nil
}
