package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// CheckDrift compares what rooms keep of declarations with the declarations. What
// differs is written down and marked; the loop decides what is done about it.
type CheckDrift struct{}

// Kind names the job to River.
func (CheckDrift) Kind() string { return "check_drift" }

// InsertOpts keeps one waiting at most.
func (CheckDrift) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: unfinished()}}
}

const (
	// comparing is half of the minute in which drift must be seen.
	comparing = 30 * time.Second
	// comparedAtOnce are read in one snapshot.
	comparedAtOnce = 500
)

type checkDrift struct {
	river.WorkerDefaults[CheckDrift]

	d *Deps
}

// Timeout is for a large fleet, one snapshot a page.
func (w *checkDrift) Timeout(*river.Job[CheckDrift]) time.Duration { return checkWithin }

func (w *checkDrift) Work(ctx context.Context, _ *river.Job[CheckDrift]) error {
	for _, kind := range []desired.Kind{desired.KindPolicy, desired.KindSKU, desired.KindOSImage, desired.KindNode} {
		for after, more := "", true; more; {
			var moves []plan.Drift
			err := pgx.BeginFunc(ctx, w.d.DB, func(tx pgx.Tx) (err error) {
				after, more, moves, err = w.page(ctx, tx, kind, after)
				return err
			})
			if err != nil {
				return fmt.Errorf("comparing what is kept of %s: %w", kind, err)
			}
			w.d.tellDrift(moves)
		}
	}
	return nil
}

// tellDrift is for after the commit.
func (d *Deps) tellDrift(moves []plan.Drift) {
	if len(moves) == 0 {
		return
	}
	d.Figures.Moved(moves)
	d.Hints.Send(event.Topic)
	d.Desired.Hint()
}

// page compares one page of a kind. All that it reads is of one instant: a
// declaration that is carried out meanwhile would look like drift.
func (w *checkDrift) page(ctx context.Context, tx pgx.Tx, kind desired.Kind, after string) (last string, more bool, moves []plan.Drift, err error) {
	if _, err := tx.Exec(ctx, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`); err != nil {
		return "", false, nil, fmt.Errorf("taking a snapshot: %w", err)
	}
	objects, err := w.d.Desired.Carried(ctx, tx, kind, after, comparedAtOnce)
	if err != nil || len(objects) == 0 {
		return "", false, nil, err
	}
	last, more = objects[len(objects)-1].Name, len(objects) == comparedAtOnce
	var now time.Time
	b, keys := &pgx.Batch{}, make([]uuid.UUID, len(objects))
	for i, o := range objects {
		keys[i] = o.UID.UUID
	}
	applied := map[uuid.UUID]observed.Applied{}
	observed.QueueApplied(b, keys, func(a observed.Applied) { applied[a.UID] = a })
	stands := reconciler.QueueOpenDrift(b, keys)
	b.Queue(`SELECT now()`).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return "", false, nil, fmt.Errorf("reading what was carried out: %w", err)
	}
	differ, err := w.compare(ctx, tx, kind, objects)
	if err != nil {
		return "", false, nil, err
	}
	for _, o := range objects {
		a, compared := applied[o.UID.UUID], differ[o.UID]
		// What is on its way to its room differs because it must.
		if a.Gone || a.Generation != o.Generation || a.SpecHash != o.SpecHash || compared == nil {
			continue
		}
		moves = append(moves, plan.EvaluateDrift(w.subject(o), *compared, stands[o.UID.UUID], plan.OfSpec, now).Moves...)
	}
	if err := w.d.drifts().Write(ctx, tx, moves); err != nil {
		return "", false, nil, err
	}
	return last, more, moves, w.mark(ctx, tx, moves)
}

func (w *checkDrift) subject(o desired.Object) plan.Subject {
	s := plan.Subject{
		Kind: o.Kind, Object: o.UID.UUID, Name: o.Name,
		Rules: plan.RulesOf(o.Kind, o.Annotations[desired.AnnotationDrift], o.Annotations[desired.AnnotationIgnore], w.d.DriftRules()),
	}
	if o.Suspended != nil {
		s.Suspended = &plan.Suspension{}
		if o.Suspended.Until != nil {
			s.Suspended.Until = *o.Suspended.Until
		}
	}
	return s
}

// mark has the loop look at what moved.
func (w *checkDrift) mark(ctx context.Context, tx pgx.Tx, moves []plan.Drift) error {
	b := &pgx.Batch{}
	for _, m := range moves {
		b.Queue(`SELECT mark_due($1, $2, now(), 'drift '||$3)`, string(m.Kind), m.Object, string(m.Move))
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("marking what differs: %w", err)
	}
	return nil
}

func (d *Deps) drifts() reconciler.Drifts { return reconciler.Drifts{Naming: d.Naming} }
