// Package reconciler is the control loop. It locks due objects, reads their desired and observed
// state, plans, checks the plan, and stores the plan with its jobs in one transaction. It owns the
// due set, the plans and the drift. It owns no product table and changes no product state.
package reconciler

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

const (
	// batch limits the due objects of one pass. It is large enough that the fixed cost of a
	// transaction does not matter, and small enough for the memory of one pass.
	batch = 1000
	// tick is the longest a due object waits when its hint was lost.
	tick = time.Second
	// retryAfter is the pause after a failed pass. Its transaction was rolled back, so the due set
	// is unchanged.
	retryAfter = 200 * time.Millisecond
)

// Loop is one replica of the loop; any number may run.
type Loop struct {
	DB      pg.Pool
	Jobs    *river.Client[pgx.Tx]
	Desired *desired.Store
	Hints   *hint.Bus
	// Limits are read once for each pass, so that one plan sees one revision.
	Limits  func() Limits
	Naming  ids.Naming // of drift
	Metrics *Metrics   // nil: no metrics
	Clock   clock.Clock
	Log     *slog.Logger
}

// Limits are the policies for planning, checking and sweeping.
type Limits struct {
	plan.Limits

	Enabled      bool          // reconcile.enabled; off: the loop plans nothing
	SweepEvery   time.Duration // the whole key space is walked once in this time
	MassReleases int           // node.mass_release_limit
	// How many nodes may go off the market without a person: the larger of the two.
	MassNodes   int // node.mass_action_minimum
	MassPercent int // node.mass_action_percent, of the fleet
}

// massPeriod is the time over which the breaker counts, from the definition of
// node.mass_release_limit; nodes are counted over the same.
const massPeriod = 10 * time.Minute

// Run loops until ctx ends. No failure ends it: what is due stays due.
func (l *Loop) Run(ctx context.Context) error {
	wake, stop := l.Hints.Listen(desired.HintDue)
	defer stop()
	timer := time.NewTicker(tick)
	defer timer.Stop()
	var s sweep
	for {
		if err := l.drain(ctx); err != nil && ctx.Err() == nil {
			l.Log.WarnContext(ctx, "pass failed", "component", "reconcile", "err", err)
			if !pause(ctx, retryAfter) {
				return nil
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case at := <-timer.C:
			if err := l.step(ctx, &s, at); err != nil && ctx.Err() == nil {
				l.Log.WarnContext(ctx, "sweep failed", "component", "reconcile", "err", err)
			}
		}
	}
}

// drain runs passes until nothing is due.
func (l *Loop) drain(ctx context.Context) error {
	for {
		n, err := l.Pass(ctx)
		if err != nil || n < batch {
			return err
		}
	}
}

// Pass processes one batch of the due set and returns the number of objects.
func (l *Loop) Pass(ctx context.Context) (processed int, err error) {
	limits := l.Limits()
	if !limits.Enabled {
		return 0, nil
	}
	var result passResult
	began := l.Clock.Now()
	err = pgx.BeginFunc(ctx, l.DB, func(tx pgx.Tx) error {
		due, err := lockDue(ctx, tx, batch)
		if err != nil || len(due) == 0 {
			return err
		}
		processed = len(due)
		if result, err = l.planAndStore(ctx, tx, due, limits); err != nil {
			return err
		}
		failpoint.Hit("loop.pass.before_commit")
		return nil
	})
	l.Metrics.passed(result.results, l.Clock.Now().Sub(began), err != nil)
	if err != nil {
		return 0, err
	}
	if result.acted {
		failpoint.Hit("loop.pass.after_commit")
	}
	l.emitEvents(result)
	return processed, nil
}

// passResult is the result of a pass.
type passResult struct {
	acted   bool
	drift   []plan.Drift
	results map[desired.Kind]string
}

// emitEvents runs after the commit: listeners wait for the events, and metrics must count only what
// was committed.
func (l *Loop) emitEvents(result passResult) {
	if len(result.drift) > 0 {
		l.Metrics.Moved(result.drift)
		l.Hints.Send(event.Topic)
	}
}

// planAndStore plans for due objects, checks the plan, and writes actions, jobs, drift and the next due times in tx. A
// crash before its commit leaves the due rows as they were.
func (l *Loop) planAndStore(ctx context.Context, tx pgx.Tx, due []dueRow, limits Limits) (result passResult, err error) {
	now, state, err := readState(ctx, tx, due)
	if err != nil {
		return passResult{results: results(due, plan.Plan{}, nil)}, err
	}
	p := plan.Merge(
		plan.Objects(state.objects, limits.Limits, now),
		plan.Allocations(state.allocations, limits.Limits, now),
	)
	rejected, err := l.check(ctx, tx, p, limits)
	if err != nil {
		return passResult{results: results(due, p, nil)}, err
	}
	return passResult{len(p.Actions) > len(rejected), p.Drift, results(due, p, rejected)}, l.store(ctx, tx, p, rejected, due, now)
}

// step processes one slice of the sweep. Objects whose hint, due row or job was lost are found here. The sweep uses the
// same path as a pass, so it needs no code that only runs after a loss.
func (l *Loop) step(ctx context.Context, s *sweep, at time.Time) error {
	limits := l.Limits()
	if !limits.Enabled {
		return nil
	}
	keys, err := s.next(ctx, l, limits.SweepEvery, at)
	if err != nil || len(keys) == 0 {
		return err
	}
	var result passResult
	if err := pgx.BeginFunc(ctx, l.DB, func(tx pgx.Tx) error {
		due, err := lockSwept(ctx, tx, keys)
		if err != nil || len(due) == 0 {
			return err
		}
		result, err = l.planAndStore(ctx, tx, due, limits)
		return err
	}); err != nil {
		return err
	}
	l.emitEvents(result)
	return nil
}

// sweep walks the key space in slices.
type sweep struct {
	after uuid.UUID
	last  time.Time
	owed  float64 // keys that were due by now; a slice has whole keys
}

// next returns the next slice: as many keys as the time since the last call is of the whole sweep. A few objects are
// therefore not swept every few seconds, and a delayed step catches up.
func (s *sweep) next(ctx context.Context, l *Loop, every time.Duration, at time.Time) ([]desired.Key, error) {
	n, err := l.Desired.Roughly(ctx, l.DB)
	if err != nil {
		return nil, err
	}
	if !s.last.IsZero() {
		s.owed = min(s.owed+float64(max(n, 1))*float64(at.Sub(s.last))/float64(max(every, tick)), float64(max(n, 1)))
	}
	s.last = at
	size := min(int(s.owed), batch)
	if size == 0 {
		return nil, nil
	}
	s.owed -= float64(size)
	keys, err := l.Desired.Slice(ctx, l.DB, s.after, size)
	if err != nil {
		return nil, err
	}
	if len(keys) < size {
		s.after = uuid.Nil
	} else {
		s.after = keys[len(keys)-1].UID
	}
	return keys, nil
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
