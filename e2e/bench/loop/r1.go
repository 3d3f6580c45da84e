// Package loop measures the control loop and the time until a node has a task.
package loop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/reconciler"
)

// ChangedObjects compares one pass over a fleet with the same pass over a fleet of ten times its
// size.
func ChangedObjects(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	k := l.Scaled(changes, 10)
	large, err := newPlanned(ctx, l, l.Scaled(lab.LargeFleet, 1000), k)
	if err != nil {
		return nil, err
	}
	defer large.pool.Close()
	small, err := newPlanned(ctx, l, l.Scaled(smallFleet, 100), k)
	if err != nil {
		return nil, err
	}
	defer small.pool.Close()
	nothing := func(context.Context) error { return nil }
	p, err := l.Alternate(ctx, lab.SlopePairs, nothing, large.pass, small.pass)
	if err != nil {
		return nil, err
	}
	r := p.Row("R1", fmt.Sprintf("one pass, %d of %d objects changed", k, large.n), k).AtMost(1.2)
	r.CPUOurs, r.CPUPeer = 0, 0 // bringing the nodes up to date between two passes costs more CPU than the passes
	r.Note = fmt.Sprintf("peer: the same pass over %d objects", small.n)
	return []lab.Row{r}, nil
}

// planned is a fleet with a loop.
type planned struct {
	lab  *lab.Lab
	url  string
	n, k int
	pool *pgxpool.Pool
	loop *reconciler.Loop
}

func newPlanned(ctx context.Context, l *lab.Lab, n, k int) (*planned, error) {
	url, err := l.Fleet(ctx, n)
	if err != nil {
		return nil, err
	}
	pool, err := lab.OpenAs(ctx, url, "reconcile", lab.LoopConns)
	if err != nil {
		return nil, err
	}
	loop, err := newLoop(pool, l)
	if err != nil {
		return nil, err
	}
	return &planned{lab: l, url: url, n: n, k: k, pool: pool, loop: loop}, nil
}

func newLoop(pool *pgxpool.Pool, l *lab.Lab) (*reconciler.Loop, error) {
	client, err := jobs.NewClient(pool, nil, l.Logger)
	if err != nil {
		return nil, err
	}
	hints := &hint.Bus{}
	return &reconciler.Loop{DB: pool, Jobs: client, Desired: &desired.Store{DB: pool, Hints: hints}, Hints: hints, Limits: lab.Limits, Log: l.Logger}, nil
}

// pass changes k random objects, measures the pass that processes them, and updates the observed
// state.
func (p *planned) pass(ctx context.Context) (took time.Duration, err error) {
	chosen := p.choose()
	if err := p.lab.Exec(ctx, p.url,
		`UPDATE desired_objects SET spec_hash = spec_hash || 'x', generation = generation + 1, fence = fence + 1, resource_version = resource_version + 1 WHERE uid IN `+chosen,
		`SELECT count(mark_due('Allocation', uid, now(), 'changed')) FROM (SELECT uid FROM desired_objects WHERE uid IN `+chosen+`) AS c`,
		`CHECKPOINT`); err != nil {
		return 0, err
	}
	began := clock.Clock{}.Now()
	taken, err := p.loop.Pass(ctx)
	took = clock.Clock{}.Now().Sub(began)
	if err != nil {
		return 0, err
	}
	if err := p.verify(ctx, taken); err != nil {
		return 0, err
	}
	return took, p.lab.Exec(ctx, p.url,
		`UPDATE observed_allocations o SET spec_hash = d.spec_hash, fence = d.fence, observed_generation = d.generation
			FROM desired_objects d WHERE d.uid = o.allocation_id AND o.allocation_id IN `+chosen,
		`DELETE FROM reconcile_due WHERE object_id IN `+chosen,
		`INSERT INTO reconcile_due (kind, object_id, due_at, reason) SELECT 'Allocation', uid, `+lab.LeaseEnd+`, 'deadline of active' FROM desired_objects WHERE uid IN `+chosen,
		`TRUNCATE plans, plan_approvals, plan_actions, river.river_job`,
		`VACUUM desired_objects, observed_allocations, reconcile_due`)
}

// verify checks that the pass has done the measured work.
func (p *planned) verify(ctx context.Context, taken int) error {
	for what, sql := range map[string]string{"actions": `SELECT count(*) FROM plan_actions WHERE verb = 'ensure'`, "jobs": `SELECT count(*) FROM river.river_job`} {
		if got, err := lab.One[int](ctx, p.url, sql); err != nil || got != p.k || taken != p.k {
			return fmt.Errorf("a pass over %d changes took %d and wrote %d %s: %w", p.k, taken, got, what, err)
		}
	}
	return nil
}

// choose returns SQL that selects k random objects.
func (p *planned) choose() string {
	seed := rand.Float64()*2 - 1 //nolint:gosec // a choice of rows, not of secrets
	return fmt.Sprintf(`(SELECT uid(1 + (i::bigint * %d + %d) %% %d) FROM generate_series(1, %d) i)`, stride(p.n), int(seed*1e6)+1e6, p.n, p.k)
}

// stride returns a number that is coprime to the sizes, so that no object is selected twice.
func stride(n int) int { return n/7*3/10*10 + 7 }

const (
	changes    = 1000
	smallFleet = 100_000
)
