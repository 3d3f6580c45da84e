package desired

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Halted describes what limits the reconciliation of an object besides its spec.
type Halted struct {
	Name           string
	Suspended      bool
	SuspendedUntil *time.Time // nil: without an end
	Drift, Ignore  string     // the annotations of these
}

// Declared is the part of any object that the loop reads.
type Declared struct {
	Halted

	UID        uuid.UUID
	Kind       Kind
	Generation int64
	Epoch      int64
	SpecHash   string
	Deleted    bool
	Owner      Owner
	Source     string // of the Git owner
	Commit     string
	Node       DeclaredNode // zero for other kinds
}

// DeclaredNode is the spec of a node, with the model and the price of its SKU.
type DeclaredNode struct {
	Spec        Node
	Model       string // empty: no such SKU is declared
	AmountMinor int64  // per GPU and hour
	Currency    string
}

// DeclaredAllocation is the part of an allocation that the loop reads.
type DeclaredAllocation struct {
	Halted

	ID         ids.Allocation
	Generation int64
	Fence      int64
	Epoch      int64
	SpecHash   string
	Node       ids.Node
	SKU        string
	Released   bool
	Slots      []string // GPU UUIDs
}

func (h *Halted) scan() []any {
	return []any{&h.Name, &h.Suspended, &h.SuspendedUntil, &h.Drift, &h.Ignore}
}

// QueueAllocations reads exactly the due keys, so that the cost of a pass does not depend on the
// number of objects.
func QueueAllocations(b *pgx.Batch, keys []uuid.UUID, each func(DeclaredAllocation)) {
	b.Queue(selectAllocations, keys).Query(func(rows pgx.Rows) error {
		var d DeclaredAllocation
		_, err := pgx.ForEachRow(rows, append(d.scan(), &d.ID, &d.Generation, &d.Fence, &d.Epoch, &d.SpecHash, &d.Node, &d.SKU, &d.Released, &d.Slots), func() error {
			each(d)
			d.Slots, d.SuspendedUntil = nil, nil
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading due allocations: %w", err)
		}
		return nil
	})
}

// QueueDeclared reads the due objects of the kinds that need no node.
func QueueDeclared(b *pgx.Batch, keys []uuid.UUID, each func(Declared)) {
	b.Queue(selectDeclared, keys).Query(func(rows pgx.Rows) error {
		var d Declared
		n := &d.Node
		_, err := pgx.ForEachRow(rows, append(d.scan(),
			&d.UID, &d.Kind, &d.Generation, &d.Epoch, &d.SpecHash, &d.Deleted, &d.Owner, &d.Source, &d.Commit,
			&n.Spec, &n.Model, &n.AmountMinor, &n.Currency), func() error {
			each(d)
			d.SuspendedUntil, n.Spec = nil, Node{}
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

// Roughly estimates the number of desired objects from PostgreSQL's statistics. A count would be a
// full scan.
func (s *Store) Roughly(ctx context.Context, q pg.Queryer) (n int64, err error) {
	if err := q.QueryRow(ctx, countRoughly).Scan(&n); err != nil {
		return 0, fmt.Errorf("estimating declarations: %w", err)
	}
	return n, nil
}

// LivePage reads a page of the live objects of a kind after a name. It is for kinds with one object
// per name, whose specs the owning packages store. It uses the index of names.
func (s *Store) LivePage(ctx context.Context, q pg.Queryer, kind Kind, after string, limit int) ([]Object, error) {
	rows, err := q.Query(ctx, selectObject+` WHERE kind = $1 AND scope = '' AND name > $2 AND deleted_at IS NULL ORDER BY name LIMIT $3`, kind, after, limit)
	if err != nil {
		return nil, fmt.Errorf("reading declarations of %s: %w", kind, err)
	}
	list, err := pgx.CollectRows(rows, scanObject)
	if err != nil {
		return nil, fmt.Errorf("reading declarations of %s: %w", kind, err)
	}
	return list, nil
}

// QueueKeyless adds a read to b, of the allocations whose object contains no SSH key. The set is filled when b is sent.
func QueueKeyless(b *pgx.Batch, of []uuid.UUID) map[ids.Allocation]bool {
	keyless := map[ids.Allocation]bool{}
	b.Queue(selectKeyless, of).Query(func(rows pgx.Rows) error {
		var id ids.Allocation
		if _, err := pgx.ForEachRow(rows, []any{&id.UUID}, func() error {
			keyless[id] = true
			return nil
		}); err != nil {
			return fmt.Errorf("reading allocations without SSH keys: %w", err)
		}
		return nil
	})
	return keyless
}
