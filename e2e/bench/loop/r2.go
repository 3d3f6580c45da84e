package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// big lists the tables that grow with the fleet.
const big = `('desired_objects', 'observed_allocations', 'observed_nodes', 'allocations', 'reconcile_due')`

// work counts the writes that an idle loop must not do, and the rows that its sweep reads.
const work = `
	SELECT ARRAY[
		(SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'plans'),
		(SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'river_job'),
		(SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname IN ` + big + `),
		(SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE relname IN ` + big + `),
		(SELECT idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'desired_objects')]::bigint[]`

// IdleLoop measures the loop in a separate process while nothing changes.
func IdleLoop(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(lab.LargeFleet, 1000)
	url, err := l.Fleet(ctx, n)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loop, err := l.ChildCommand(ctx, "loop", "DATABASE_URL="+url)
	if err != nil {
		return nil, err
	}
	if err := loop.Start(); err != nil {
		return nil, fmt.Errorf("starting the loop: %w", err)
	}
	defer func() { cancel(); _ = loop.Wait() }() // it was ordered to end
	lab.Rest(ctx, l)
	before, err := lab.One[[]int64](ctx, url, work)
	if err != nil {
		return nil, err
	}
	loopBefore, _ := lab.StatOf(loop.Process.Pid)
	allBefore := l.Cpu()
	watch := min(l.Idle, max(l.Idle*time.Duration(l.Scale*1000)/1000, 2*time.Second))
	lab.Wait(ctx, watch)
	loopAfter, alive := lab.StatOf(loop.Process.Pid)
	all := l.Cpu() - allBefore
	after, err := lab.One[[]int64](ctx, url, work)
	if err != nil || !alive {
		return nil, fmt.Errorf("the loop has ended: %w", err)
	}
	for i := range after {
		after[i] -= before[i]
	}
	loopCPU := loopAfter.Cpu - loopBefore.Cpu
	each := 1e6 * loopCPU / float64(max(after[4], 1))
	trip, err := roundTrip(ctx, url, l.Scaled(roundTrips, 100))
	if err != nil {
		return nil, err
	}
	wrong := float64(after[0] + after[1] + after[2] + after[3])
	swept := fmt.Sprintf("the sweep read %d objects in %s; plans %d, jobs %d, full scans %d, rows written %d", after[4], watch, after[0], after[1], after[2], after[3])
	return []lab.Row{
		{ID: "R2", Path: fmt.Sprintf("idle loop over %d objects: plans, jobs, full scans, rows written", n), Ours: wrong, Ratio: wrong, Min: wrong, Max: wrong, Goal: "0", Met: new(wrong == 0), Note: swept},
		{
			ID: "R2-cpu", Path: "CPU of the idle loop for each object of the sweep / of a client for SELECT 1", Unit: " µs", Ours: each, Peer: trip,
			Ratio: each / trip, Min: each / trip, Max: each / trip, Goal: "≤ 0.3", Met: new(each <= 0.3*trip),
			Note: fmt.Sprintf("%.1f %% of a core, with PostgreSQL's part %.1f %%", 100*loopCPU/watch.Seconds(), 100*all/watch.Seconds()),
		},
	}, nil
}

// roundTrips is the number of statements that roundTrip measures.
const roundTrips = 50_000

// roundTrip returns the CPU time of this process for one SELECT 1, in microseconds. It is the unit of R2-cpu, because a share
// of a core depends on the computer.
func roundTrip(ctx context.Context, url string, n int) (µs float64, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("connecting: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	before, _ := lab.StatOf(os.Getpid())
	var one int
	for range n {
		if err := conn.QueryRow(ctx, `SELECT 1`).Scan(&one); err != nil {
			return 0, fmt.Errorf("selecting 1: %w", err)
		}
	}
	after, _ := lab.StatOf(os.Getpid())
	return 1e6 * max(after.Cpu-before.Cpu, 0.01) / float64(n), nil // the kernel counts hundredths of a second
}

// LoopProcess runs a loop until ctx ends.
func LoopProcess(ctx context.Context) error {
	pool, err := lab.OpenAs(ctx, os.Getenv("DATABASE_URL"), "reconcile", lab.LoopConns)
	if err != nil {
		return err
	}
	defer pool.Close()
	loop, err := newLoop(pool, &lab.Lab{Logger: lab.Quiet(os.Stderr)})
	if err != nil {
		return err
	}
	debug.SetGCPercent(lab.CollectAt)
	return loop.Run(ctx)
}
