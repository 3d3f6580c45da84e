package reconciler

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// dueRow is one object of the due set, locked until the pass commits. A swept object that is not
// due has no row.
type dueRow struct {
	Kind          desired.Kind
	Object        uuid.UUID
	Previous      plan.Previous
	DueAt         *time.Time // nil: not in the due set
	PreviousUntil *time.Time
}

// state contains the rows of the due objects of a pass.
type state struct {
	objects     []plan.DueObject
	allocations []plan.DueAllocation
}

// lockDue locks the next due rows. Other replicas skip the locked rows. A transaction that marks
// one of them due waits for this commit and then inserts it again.
func lockDue(ctx context.Context, tx pgx.Tx, limit int) ([]dueRow, error) {
	return scanDue(tx.Query(ctx, selectDue, limit))
}

// lockSwept locks the due rows of swept keys and skips those that another replica has locked.
func lockSwept(ctx context.Context, tx pgx.Tx, keys []desired.Key) ([]dueRow, error) {
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
		err = row.Scan(&d.Kind, &d.Object, &d.DueAt, &d.Previous.Verb, &d.Previous.Event, &d.Previous.Fence, &d.Previous.Generation, &d.Previous.Failures, &d.PreviousUntil)
		if d.PreviousUntil != nil {
			d.Previous.Until = *d.PreviousUntil
		}
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("taking due objects: %w", err)
	}
	return due, nil
}

// readState reads both sides of every due key in one round trip, and the database's
// clock, which is the only one that plans are made by.
func readState(ctx context.Context, tx pgx.Tx, due []dueRow) (now time.Time, w state, err error) {
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
		return time.Time{}, state{}, fmt.Errorf("reading due objects: %w", err)
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

// allocationSides contains the rows of the due allocations.
type allocationSides struct {
	want      map[uuid.UUID]plan.Desired
	have      map[uuid.UUID][]plan.Observed // one for each node that reported it
	progress  map[uuid.UUID]plan.Progress
	leaving   map[uuid.UUID]plan.Eviction
	openDrift OpenDrift
}

// queueAllocations queues the reads of both sides of all due allocations in the caller's batch: one round trip, however
// many are due.
func queueAllocations(b *pgx.Batch, keys []uuid.UUID) allocationSides {
	s := allocationSides{map[uuid.UUID]plan.Desired{}, map[uuid.UUID][]plan.Observed{}, map[uuid.UUID]plan.Progress{}, map[uuid.UUID]plan.Eviction{}, nil}
	if len(keys) == 0 {
		return s
	}
	desired.QueueAllocations(b, keys, func(d desired.DeclaredAllocation) {
		s.want[d.ID.UUID] = plan.Desired{
			Name: d.Name, Suspended: suspension(d.Halted), Drift: d.Drift, Ignore: d.Ignore, Node: d.Node, SKU: d.SKU, Generation: d.Generation, Fence: d.Fence, Epoch: d.Epoch,
			SpecHash: d.SpecHash, Slots: d.Slots, Released: d.Released,
		}
	})
	observed.QueueReports(b, keys, func(o observed.AllocationState) {
		s.have[o.ID.UUID] = append(s.have[o.ID.UUID], plan.Observed{
			Node: o.Node, Phase: o.Phase, Fence: o.Fence, SpecHash: o.SpecHash, Message: o.Message,
			Proven: o.Proven, Complete: o.Complete, StaleAt: o.StaleAt, Failures: o.Failures, FailedFence: o.FailedFence,
		})
	})
	b.Queue(selectProgress, keys).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var p plan.Progress
		var expires, leave *time.Time
		_, err := pgx.ForEachRow(rows, []any{&id, &p.State, &p.Since, &expires, &p.Hourly, &p.Currency, &leave, &p.Eviction.By, &p.Eviction.Why}, func() error {
			p.ExpiresAt, p.Eviction.At = timeOf(expires), timeOf(leave)
			s.progress[id] = p
			return nil
		})
		return err
	})
	b.Queue(selectLeaving, keys).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var l plan.Eviction
		_, err := pgx.ForEachRow(rows, []any{&id, &l.At, &l.By, &l.Why}, func() error {
			s.leaving[id] = l
			return nil
		})
		return err
	})
	s.openDrift = QueueOpenDrift(b, keys)
	return s
}

// timeOf is zero for what is not there.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func (s allocationSides) due(d dueRow) plan.DueAllocation {
	due := plan.DueAllocation{
		ID: ids.Allocation{UUID: d.Object}, Previous: d.Previous, OpenDrift: s.openDrift[d.Object],
		Desired: found(s.want, d.Object), Progress: found(s.progress, d.Object), Eviction: found(s.leaving, d.Object),
	}
	due.Observed = plan.ObservedOn(s.have[d.Object], due.Desired)
	return due
}

// suspension turns two columns into one value.
func suspension(h desired.Halted) *plan.Suspension {
	if !h.Suspended {
		return nil
	}
	s := &plan.Suspension{}
	if h.SuspendedUntil != nil {
		s.Until = *h.SuspendedUntil
	}
	return s
}

type objectSides struct {
	want      map[uuid.UUID]desired.Declared
	applied   map[uuid.UUID]observed.Applied
	reports   map[uuid.UUID]observed.NodeReport
	specs     map[uuid.UUID]nodeSpec
	openDrift OpenDrift
}

// nodeSpec is a node as product/fleet stores it.
type nodeSpec struct {
	reachable, onMarket bool
	holding             plan.Holding
	changed             string
}

// queueObjects does the same for all other kinds.
func queueObjects(b *pgx.Batch, keys []uuid.UUID) objectSides {
	s := objectSides{map[uuid.UUID]desired.Declared{}, map[uuid.UUID]observed.Applied{}, map[uuid.UUID]observed.NodeReport{}, map[uuid.UUID]nodeSpec{}, nil}
	if len(keys) == 0 {
		return s
	}
	desired.QueueDeclared(b, keys, func(d desired.Declared) { s.want[d.UID] = d })
	observed.QueueApplied(b, keys, func(a observed.Applied) { s.applied[a.UID] = a })
	observed.QueueNodeReports(b, keys, func(h observed.NodeReport) { s.reports[h.Node] = h })
	b.Queue(selectNodeSpecs, keys).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var k nodeSpec
		var leave, lapses *time.Time
		h := &k.holding
		_, err := pgx.ForEachRow(rows, []any{&id, &k.reachable, &k.onMarket, &k.changed, &h.Lifecycle, &h.Retiring, &leave, &lapses, &h.Occupied}, func() error {
			h.EvictAt, h.NextHoldEnd = timeOf(leave), timeOf(lapses)
			s.specs[id] = k
			return nil
		})
		return err
	})
	s.openDrift = QueueOpenDrift(b, keys)
	return s
}

// due merges both sides of an object. A key without a desired object has the generation 0, and the planner then plans
// nothing for it.
func (s objectSides) due(d dueRow) plan.DueObject {
	w, a := s.want[d.Object], s.applied[d.Object]
	due := plan.DueObject{
		Kind: d.Kind, Object: d.Object, Name: w.Name, Generation: w.Generation, Epoch: w.Epoch, SpecHash: w.SpecHash,
		Deleted: w.Deleted, Suspended: suspension(w.Halted), Drift: w.Drift, Ignore: w.Ignore, Source: w.Source, Commit: w.Commit,
		AppliedGeneration: a.Generation, AppliedEpoch: a.Epoch, AppliedHash: a.SpecHash, Gone: a.Gone, Failures: a.Of(w.Generation, w.Epoch), Previous: d.Previous, OpenDrift: s.openDrift[d.Object],
	}
	if d.Kind != desired.KindNode {
		return due
	}
	reports, known := s.reports[d.Object]
	if known {
		due.Reports = &plan.ReportState{StaleAt: reports.StaleAt, Reachable: s.specs[d.Object].reachable}
	}
	if k, known := s.specs[d.Object]; known {
		due.Holding = &k.holding
	}
	due.Node = nodeState(w, reports, s.specs[d.Object])
	return due
}

func nodeState(w desired.Declared, reports observed.NodeReport, k nodeSpec) *plan.NodeState {
	n := w.Node
	m := &plan.NodeState{
		Spec: n.Spec, ByAPI: w.Owner == desired.OwnerAPI,
		Model: n.Model, Price: money.Minor(n.AmountMinor), Currency: n.Currency, OnMarket: k.onMarket, Changed: k.changed,
	}
	if reports.Devices != nil {
		m.Devices = make([]plan.Device, len(reports.Devices))
	}
	for i, d := range reports.Devices {
		m.Devices[i] = plan.Device(d)
	}
	return m
}

func found[T any](m map[uuid.UUID]T, id uuid.UUID) *T {
	if v, ok := m[id]; ok {
		return &v
	}
	return nil
}
