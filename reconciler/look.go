package reconciler

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// dueRow is one object of the due set, held until the pass commits. A swept
// object that is not due has no row and is not kept.
type dueRow struct {
	Kind     desired.Kind
	Object   uuid.UUID
	Asked    plan.Asked
	DueAt    *time.Time // nil: not in the due set
	AskUntil *time.Time
}

// world is what a pass knows of its due objects, as values.
type world struct {
	objects     []plan.DueObject
	allocations []plan.DueAllocation
}

// takeDue locks the next due rows. Other replicas skip them; whoever marks one
// of them due meanwhile waits for this commit and then finds it free.
func takeDue(ctx context.Context, tx pgx.Tx, limit int) ([]dueRow, error) {
	return scanDue(tx.Query(ctx, selectDue, limit))
}

// lookUp finds the due rows of swept keys, leaving out those that another
// replica holds at the moment.
func lookUp(ctx context.Context, tx pgx.Tx, keys []desired.Key) ([]dueRow, error) {
	kinds, uids := make([]string, len(keys)), make([]uuid.UUID, len(keys))
	for i, k := range keys {
		kinds[i], uids[i] = string(k.Kind), k.UID
	}
	return scanDue(tx.Query(ctx, selectSwept, kinds, uids))
}

func scanDue(rows pgx.Rows, err error) ([]dueRow, error) {
	if err != nil {
		return nil, fmt.Errorf("taking due objects: %w", err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d dueRow, err error) {
		err = row.Scan(&d.Kind, &d.Object, &d.DueAt, &d.Asked.Verb, &d.Asked.Event, &d.Asked.Fence, &d.Asked.Generation, &d.Asked.Failures, &d.AskUntil)
		if d.AskUntil != nil {
			d.Asked.Until = *d.AskUntil
		}
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("taking due objects: %w", err)
	}
	return due, nil
}

// look reads both sides of every due key in one round trip, and the database's
// clock, which is the only one that plans are made by.
func look(ctx context.Context, tx pgx.Tx, due []dueRow) (now time.Time, w world, err error) {
	var allocations, objects []uuid.UUID
	for _, d := range due {
		if d.Kind == desired.KindAllocation {
			allocations = append(allocations, d.Object)
		} else {
			objects = append(objects, d.Object)
		}
	}
	b := &pgx.Batch{}
	b.Queue(`SELECT now()`).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	forAllocations := queueAllocations(b, allocations)
	forObjects := queueObjects(b, objects)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return time.Time{}, world{}, fmt.Errorf("reading due objects: %w", err)
	}
	for _, d := range due {
		if d.Kind == desired.KindAllocation {
			w.allocations = append(w.allocations, forAllocations.due(d))
		} else {
			w.objects = append(w.objects, forObjects.due(d))
		}
	}
	return now, w, nil
}

// allocationSides holds what was read, by allocation.
type allocationSides struct {
	want     map[uuid.UUID]plan.Want
	have     map[uuid.UUID]plan.Have
	progress map[uuid.UUID]plan.Progress
	drifting map[uuid.UUID]bool
}

func queueAllocations(b *pgx.Batch, keys []uuid.UUID) allocationSides {
	s := allocationSides{map[uuid.UUID]plan.Want{}, map[uuid.UUID]plan.Have{}, map[uuid.UUID]plan.Progress{}, map[uuid.UUID]bool{}}
	if len(keys) == 0 {
		return s
	}
	desired.QueueAllocations(b, keys, func(d desired.DeclaredAllocation) {
		s.want[d.ID.UUID] = plan.Want{
			Node: d.Node, Generation: d.Generation, Fence: d.Fence, Epoch: d.Epoch,
			SpecHash: d.SpecHash, Slots: d.Slots, Released: d.Released,
		}
	})
	observed.QueueSeen(b, keys, func(o observed.Seen) {
		s.have[o.ID.UUID] = plan.Have{
			Node: o.Node, Phase: o.Phase, Fence: o.Fence, SpecHash: o.SpecHash, Message: o.Message,
			Proven: o.Proven, Complete: o.Complete, StaleAt: o.StaleAt, Failures: o.Failures, FailedFence: o.FailedFence,
		}
	})
	b.Queue(selectProgress, keys).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var p plan.Progress
		var expires *time.Time
		_, err := pgx.ForEachRow(rows, []any{&id, &p.State, &p.Since, &expires}, func() error {
			p.ExpiresAt = time.Time{}
			if expires != nil {
				p.ExpiresAt = *expires
			}
			s.progress[id] = p
			return nil
		})
		return err
	})
	queueMarked(b, selectDrifting, keys, s.drifting)
	return s
}

func (s allocationSides) due(d dueRow) plan.DueAllocation {
	due := plan.DueAllocation{
		ID: ids.Allocation{UUID: d.Object}, Asked: d.Asked, Drifting: s.drifting[d.Object],
		Want: found(s.want, d.Object), Have: found(s.have, d.Object), Progress: found(s.progress, d.Object),
	}
	// Only the node that it was placed on can say how an allocation is.
	if due.Want != nil && due.Have != nil && due.Want.Node != due.Have.Node {
		due.Have = nil
	}
	return due
}

type objectSides struct {
	want      map[uuid.UUID]desired.Declared
	applied   map[uuid.UUID]observed.Applied
	stale     map[uuid.UUID]time.Time
	reachable map[uuid.UUID]bool
}

func queueObjects(b *pgx.Batch, keys []uuid.UUID) objectSides {
	s := objectSides{map[uuid.UUID]desired.Declared{}, map[uuid.UUID]observed.Applied{}, map[uuid.UUID]time.Time{}, map[uuid.UUID]bool{}}
	if len(keys) == 0 {
		return s
	}
	desired.QueueDeclared(b, keys, func(d desired.Declared) { s.want[d.UID] = d })
	observed.QueueApplied(b, keys, func(a observed.Applied) { s.applied[a.UID] = a })
	observed.QueueSilence(b, keys, func(node uuid.UUID, at time.Time) { s.stale[node] = at })
	queueMarked(b, selectReachable, keys, s.reachable)
	return s
}

func (s objectSides) due(d dueRow) plan.DueObject {
	w, a := s.want[d.Object], s.applied[d.Object]
	due := plan.DueObject{
		Kind: d.Kind, Object: d.Object, Generation: w.Generation, Epoch: w.Epoch, SpecHash: w.SpecHash,
		Deleted: w.Deleted, AppliedGeneration: a.Generation, AppliedHash: a.SpecHash, Gone: a.Gone, Asked: d.Asked,
	}
	if at, ok := s.stale[d.Object]; ok && d.Kind == desired.KindNode {
		due.Silence = &plan.Silence{StaleAt: at, Reachable: s.reachable[d.Object]}
	}
	return due
}

func found[T any](m map[uuid.UUID]T, id uuid.UUID) *T {
	if v, ok := m[id]; ok {
		return &v
	}
	return nil
}

// queueMarked notes which of the keys a statement returns.
func queueMarked(b *pgx.Batch, sql string, keys []uuid.UUID, marked map[uuid.UUID]bool) {
	b.Queue(sql, keys).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			marked[id] = true
			return nil
		})
		return err
	})
}
