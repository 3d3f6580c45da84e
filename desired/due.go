package desired

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Declared is what the loop reads of any object.
type Declared struct {
	UID        uuid.UUID
	Kind       Kind
	Generation int64
	Epoch      int64
	SpecHash   string
	Deleted    bool
}

// DeclaredAllocation is what the loop reads of an allocation.
type DeclaredAllocation struct {
	ID         ids.Allocation
	Generation int64
	Fence      int64
	Epoch      int64
	SpecHash   string
	Node       ids.Node
	Released   bool
	Slots      []string // GPU UUIDs
}

// QueueAllocations reads exactly the due keys, so that the cost of a look does
// not depend on how many objects there are.
func QueueAllocations(b *pgx.Batch, keys []uuid.UUID, each func(DeclaredAllocation)) {
	b.Queue(selectAllocations, keys).Query(func(rows pgx.Rows) error {
		var d DeclaredAllocation
		_, err := pgx.ForEachRow(rows, []any{&d.ID, &d.Generation, &d.Fence, &d.Epoch, &d.SpecHash, &d.Node, &d.Released, &d.Slots}, func() error {
			each(d)
			d.Slots = nil
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading due allocations: %w", err)
		}
		return nil
	})
}

// QueueDeclared does the same for the kinds that need no host.
func QueueDeclared(b *pgx.Batch, keys []uuid.UUID, each func(Declared)) {
	b.Queue(selectDeclared, keys).Query(func(rows pgx.Rows) error {
		var d Declared
		_, err := pgx.ForEachRow(rows, []any{&d.UID, &d.Kind, &d.Generation, &d.Epoch, &d.SpecHash, &d.Deleted}, func() error {
			each(d)
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading due declarations: %w", err)
		}
		return nil
	})
}

// Key names an object to the loop.
type Key struct {
	Kind Kind
	UID  uuid.UUID
}

// Slice reads the next keys of the sweep after one key, and about how many there
// are in all.
func (s *Store) Slice(ctx context.Context, q pg.Queryer, after uuid.UUID, limit int) ([]Key, error) {
	rows, err := q.Query(ctx, selectSlice, after, limit)
	if err != nil {
		return nil, fmt.Errorf("reading a slice of declarations: %w", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Key])
	if err != nil {
		return nil, fmt.Errorf("reading a slice of declarations: %w", err)
	}
	return keys, nil
}

// Roughly is about how many objects are declared, by the planner's statistics: a
// count would be a full scan.
func (s *Store) Roughly(ctx context.Context, q pg.Queryer) (n int64, err error) {
	if err := q.QueryRow(ctx, countRoughly).Scan(&n); err != nil {
		return 0, fmt.Errorf("estimating declarations: %w", err)
	}
	return n, nil
}
