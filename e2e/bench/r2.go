package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

// big are the tables that grow with the fleet.
const big = `('desired_objects', 'observed_allocations', 'observed_nodes', 'allocations', 'reconcile_due')`

// work counts what an idle loop must not do, and what its sweep reads.
const work = `
	SELECT ARRAY[
		(SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'plans'),
		(SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'river_job'),
		(SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname IN ` + big + `),
		(SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE relname IN ` + big + `),
		(SELECT idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'desired_objects')]::bigint[]`

// idleLoop watches the loop, in a process of its own, while nothing changes.
func idleLoop(ctx context.Context, l *lab) ([]row, error) {
	n := l.scaled(largeFleet, 1000)
	url, err := l.fleet(ctx, n)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loop, err := l.childCommand(ctx, "loop", "DATABASE_URL="+url)
	if err != nil {
		return nil, err
	}
	if err := loop.Start(); err != nil {
		return nil, fmt.Errorf("starting the loop: %w", err)
	}
	defer func() { cancel(); _ = loop.Wait() }() // it was told to end
	l.settle(ctx)
	before, err := one[[]int64](ctx, url, work)
	if err != nil {
		return nil, err
	}
	loopBefore, _ := statOf(loop.Process.Pid)
	allBefore := l.cpu()
	watch := min(l.Idle, max(l.Idle*time.Duration(l.Scale*1000)/1000, 2*time.Second))
	wait(ctx, watch)
	loopAfter, alive := statOf(loop.Process.Pid)
	all := l.cpu() - allBefore
	after, err := one[[]int64](ctx, url, work)
	if err != nil || !alive {
		return nil, fmt.Errorf("the loop has ended: %w", err)
	}
	for i := range after {
		after[i] -= before[i]
	}
	loopCPU := loopAfter.cpu - loopBefore.cpu
	busy := 100 * loopCPU / watch.Seconds()
	wrong := float64(after[0] + after[1] + after[2] + after[3])
	swept := fmt.Sprintf("the sweep read %d objects in %s; plans %d, jobs %d, full scans %d, rows written %d", after[4], watch, after[0], after[1], after[2], after[3])
	return []row{
		{ID: "R2", Path: fmt.Sprintf("idle loop over %d objects: plans, jobs, full scans, rows written", n), Ours: wrong, Ratio: wrong, Min: wrong, Max: wrong, Goal: "0", Met: new(wrong == 0), Note: swept},
		{
			ID: "R2-cpu", Path: "the idle loop's share of one core", Unit: " %", Ours: busy, Peer: 1, Ratio: busy, Min: busy, Max: busy, Goal: "≤ 1", Met: new(busy <= 1),
			Note: fmt.Sprintf("with PostgreSQL's part %.1f %% of a core", 100*all/watch.Seconds()),
		},
	}, nil
}

// settle waits until what was started has opened its connections and prepared its
// statements.
func (l *lab) settle(ctx context.Context) {
	d := 3 * time.Second
	if l.Smoke {
		d /= 10
	}
	wait(ctx, d)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// loopProcess runs a loop until it is told to end.
func loopProcess(ctx context.Context) error {
	pool, err := openAs(ctx, os.Getenv("DATABASE_URL"), "reconcile", loopConns)
	if err != nil {
		return err
	}
	defer pool.Close()
	loop, err := newLoop(pool, &lab{log: quiet(os.Stderr)})
	if err != nil {
		return err
	}
	debug.SetGCPercent(collectAt)
	return loop.Run(ctx)
}

// collectAt is how the server has it.
const collectAt = 300
