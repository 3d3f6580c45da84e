package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/protocol"
)

// CheckMeters pauses charging of allocations whose service is not confirmed, because the node's
// reports are stale or the node is unhealthy. It resumes charging after a healthy report.
type CheckMeters struct{}

// Kind names the job to River.
func (CheckMeters) Kind() string { return "check_meters" }

// InsertOpts allows one waiting job at most. A late job only increases the fault credit.
func (CheckMeters) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: ledger.QueueBilling, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

const (
	// metersAtOnce are read in one statement.
	metersAtOnce = 500
	// checkWithin is long enough for a large part of the fleet, with one small transaction for each
	// allocation. The next job checks the rest.
	checkWithin = 5 * time.Minute
)

type checkMeters struct {
	river.WorkerDefaults[CheckMeters]

	d *Deps
}

// Timeout is longer than that of a job of one transaction.
func (w *checkMeters) Timeout(*river.Job[CheckMeters]) time.Duration { return checkWithin }

// page is some ids after the given one.
type page func(ctx context.Context, after ids.Allocation) ([]ids.Allocation, error)

func (w *checkMeters) Work(ctx context.Context, _ *river.Job[CheckMeters]) error {
	for _, step := range []struct {
		of    page
		check func(ctx context.Context, tx pgx.Tx, id ids.Allocation) error
	}{
		{w.charged(w.silent), w.pause},
		{w.charged(w.unhealthy), w.pause},
		{w.paused, w.resume},
	} {
		if err := w.forEach(ctx, step.of, step.check); err != nil {
			return err
		}
	}
	return nil
}

// forEach has every allocation checked in a transaction of its own, under its lock.
func (w *checkMeters) forEach(ctx context.Context, of page, check func(context.Context, pgx.Tx, ids.Allocation) error) error {
	var after ids.Allocation
	for {
		some, err := of(ctx, after)
		if err != nil || len(some) == 0 {
			return err
		}
		for _, id := range some {
			if err := pgx.BeginFunc(ctx, w.d.DB, func(tx pgx.Tx) error { return check(ctx, tx, id) }); err != nil {
				return fmt.Errorf("checking the meter of %s: %w", id, err)
			}
		}
		after = some[len(some)-1]
	}
}

func (w *checkMeters) silent(ctx context.Context, after ids.Allocation) ([]ids.Allocation, error) {
	stale := w.d.ObservationStale()
	if w.d.Clock.Now().Sub(w.d.Began) < stale {
		return nil, nil
	}
	return w.d.Observed.Old(ctx, stale, after, metersAtOnce)
}

func (w *checkMeters) unhealthy(ctx context.Context, after ids.Allocation) ([]ids.Allocation, error) {
	return w.d.NodeHealth.Unhealthy(ctx, after, metersAtOnce)
}

func (w *checkMeters) paused(ctx context.Context, after ids.Allocation) ([]ids.Allocation, error) {
	return w.d.Allocations.Paused(ctx, w.d.DB, after, metersAtOnce)
}

// charged leaves out what is not charged for, and with it most of the work while a
// node stays away for days.
func (w *checkMeters) charged(of page) page {
	return func(ctx context.Context, after ids.Allocation) ([]ids.Allocation, error) {
		for {
			all, err := of(ctx, after)
			if err != nil || len(all) == 0 {
				return nil, err
			}
			open, err := w.d.Metering.Open(ctx, all)
			if err != nil || len(open) > 0 {
				return open, err
			}
			after = all[len(all)-1]
		}
	}
}

// pause checks again with the row locked, because a report may have arrived since.
func (w *checkMeters) pause(ctx context.Context, tx pgx.Tx, id ids.Allocation) error {
	a, seen, err := w.lock(ctx, tx, id)
	if err != nil || a.State != allocation.Active || a.Paused != "" {
		return err
	}
	by, last, err := w.doubt(ctx, tx, a, seen)
	if err != nil || by == "" {
		return err
	}
	paused, err := w.d.Allocations.Pause(ctx, tx, a, by, last)
	if paused {
		w.d.Log.InfoContext(ctx, "metering paused", "component", "billing", "tenant_id", a.Tenant, "node_id", a.Node, "resource_urn", a.URN(w.d.Allocations.Naming), "reason", by)
	}
	return err
}

// resume requires the same observation that made the allocation active. Of an allocation whose part of the report
// could not be read, that is the last one that was: a tenant that hides from the inspection of its node must not use
// GPUs for free. For the same reason no pause depends on it.
func (w *checkMeters) resume(ctx context.Context, tx pgx.Tx, id ids.Allocation) error {
	a, seen, err := w.lock(ctx, tx, id)
	if err != nil || a.State != allocation.Active || a.Paused == "" {
		return err
	}
	want, _, err := lockDeclared(ctx, tx, w.d.Desired, id)
	if err != nil || !isReady(a, seen, want) {
		return err
	}
	if by, _, err := w.doubt(ctx, tx, a, seen); err != nil || by != "" {
		return err
	}
	w.d.Log.InfoContext(ctx, "metering resumed", "component", "billing", "tenant_id", a.Tenant, "node_id", a.Node, "resource_urn", a.URN(w.d.Allocations.Naming))
	return w.d.Allocations.Resume(ctx, tx, a, observation(seen))
}

func (w *checkMeters) lock(ctx context.Context, tx pgx.Tx, id ids.Allocation) (a allocation.Allocation, seen observed.Allocation, err error) {
	if a, err = w.d.Allocations.Lock(ctx, tx, id); err == nil {
		seen, err = w.d.Observed.AllocationIn(ctx, tx, id, a.Node)
	}
	if errs.CodeOf(err) == errs.NotFound {
		return allocation.Allocation{}, observed.Allocation{}, nil // an allocation without a report is not charged
	}
	return a, seen, err
}

// doubt returns why charging of an allocation must pause, and the time until which it was
// confirmed.
func (w *checkMeters) doubt(ctx context.Context, tx pgx.Tx, a allocation.Allocation, seen observed.Allocation) (metering.Cause, metering.Observation, error) {
	last := observation(seen)
	since, unhealthy, err := w.d.NodeHealth.UnhealthySince(ctx, tx, a.ID)
	switch {
	case err != nil:
		return "", last, err
	case unhealthy && since.Before(last.ObservedAt):
		last.ObservedAt = since.UTC()
		return metering.NodeUnhealthy, last, nil
	case seen.Age > w.d.ObservationStale():
		return metering.ObservationStale, last, nil
	case unhealthy:
		return metering.NodeUnhealthy, last, nil
	}
	return "", last, nil
}

// isReady reports whether the allocation's own node reports it ready, at the present fence and
// generation.
func isReady(a allocation.Allocation, seen observed.Allocation, want desired.Object) bool {
	return seen.Node == a.Node && seen.Fresh && seen.Phase == protocol.Ready && seen.Fence == want.Fence && seen.SpecHash == want.SpecHash
}
