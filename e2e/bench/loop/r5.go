package loop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/migrations"
)

// TaskInHand measures the time from the commit of a desired object to the arrival of its task at an
// agent. The peers are a bare commit with NOTIFY, and River with its default settings.
func TaskInHand(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(samples, 10)
	url, err := l.Database(ctx, "r5")
	if err != nil {
		return nil, err
	}
	h, err := newInstallation(ctx, l, url, n)
	if err != nil {
		return nil, err
	}
	defer h.close(ctx)
	l.Say("R5: %d declarations", n)
	ours, err := stream(ctx, n, h.received, h.declare)
	if err != nil {
		return nil, err
	}
	h.close(ctx) // what follows must not share the cores with it
	raw, err := rawNotify(ctx, url, n)
	if err != nil {
		return nil, err
	}
	queue, err := plainRiver(ctx, l, url, n)
	if err != nil {
		return nil, err
	}
	p50 := lab.Row{ID: "R5", Path: "declared → task in the agent's hands, p50", Unit: " ms", Ours: lab.Quantile(ours, 0.5), Peer: lab.Quantile(raw, 0.5)}
	p50.Ratio = p50.Ours / p50.Peer
	p50.Min, p50.Max = p50.Ratio, p50.Ratio
	p50.Note = fmt.Sprintf("peer: one commit with NOTIFY, to the listener. Ours p99 %.1f ms, peer p99 %.1f ms", lab.Quantile(ours, 0.99), lab.Quantile(raw, 0.99))
	p99 := lab.Row{ID: "R5-p99", Path: "the same, p99", Unit: " ms", Ours: lab.Quantile(ours, 0.99), Peer: lab.Quantile(queue, 0.99)}
	p99.Ratio = p99.Ours / p99.Peer
	p99.Min, p99.Max = p99.Ratio, p99.Ratio
	p99.Note = fmt.Sprintf("peer: River with its default settings, job committed → worked; its p50 %.1f ms", lab.Quantile(queue, 0.5))
	return []lab.Row{p50.AtMost(10), p99.AtMost(0.1)}, nil
}

// arrivals matches each arrival with its departure. An arrival may be recorded before the sender
// has read the clock.
type arrivals struct {
	mu   sync.Mutex
	in   map[string]time.Time
	out  map[string]time.Time
	more chan struct{}
}

func newArrivals() *arrivals {
	return &arrivals{in: map[string]time.Time{}, out: map[string]time.Time{}, more: make(chan struct{}, 1)}
}

// arrived records the first arrival of key.
func (a *arrivals) arrived(key string) {
	now := clock.Clock{}.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, again := a.out[key]; !again {
		a.out[key] = now
	}
	select {
	case a.more <- struct{}{}:
	default:
	}
}

func (a *arrivals) took() (milliseconds []float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, began := range a.in {
		if end, ok := a.out[key]; ok {
			milliseconds = append(milliseconds, float64(end.Sub(began).Microseconds())/1000)
		}
	}
	return milliseconds
}

// stream calls put n times at random times and waits until all keys have arrived. put returns after
// its commit.
func stream(ctx context.Context, n int, a *arrivals, put func(ctx context.Context, i int) (key string, committed time.Time, err error)) ([]float64, error) {
	for i := range n {
		key, at, err := put(ctx, i)
		if err != nil {
			return nil, err
		}
		a.mu.Lock()
		a.in[key] = at
		a.mu.Unlock()
		lab.Wait(ctx, time.Duration(rand.ExpFloat64()*float64(gap))) //nolint:gosec // when, not what
	}
	end := time.After(lab.Patience)
	for {
		took := a.took()
		if len(took) == n {
			return took, nil
		}
		select {
		case <-a.more:
		case <-end:
			return nil, fmt.Errorf("%d of %d came through within %s", len(took), n, lab.Patience)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// rawNotify measures the least time for a notified commit: one row and one NOTIFY in a transaction,
// up to the notification at a listening connection. The time includes the commit, which is the
// greater part of it.
func rawNotify(ctx context.Context, url string, n int) ([]float64, error) {
	listener, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = listener.Close(context.WithoutCancel(ctx)) }()
	sender, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = sender.Close(ctx) }()
	if _, err := listener.Exec(ctx, `LISTEN raw`); err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if _, err := sender.Exec(ctx, `CREATE TABLE raw (i int PRIMARY KEY)`); err != nil {
		return nil, fmt.Errorf("making a table: %w", err)
	}
	a := newArrivals()
	listening, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for {
			notice, err := listener.WaitForNotification(listening)
			if err != nil {
				return // its context ended
			}
			a.arrived(notice.Payload)
		}
	}()
	return stream(ctx, n, a, func(ctx context.Context, i int) (string, time.Time, error) {
		key := fmt.Sprint(i)
		began := clock.Clock{}.Now()
		_, err := sender.Exec(ctx, `WITH put AS (INSERT INTO raw VALUES ($1) RETURNING i) SELECT pg_notify('raw', i::text) FROM put`, i)
		return key, began, err
	})
}

type noJob struct {
	Key string `json:"key"`
}

func (noJob) Kind() string { return "bench_nothing" }

type noWorker struct {
	river.WorkerDefaults[noJob]
	a *arrivals
}

func (w *noWorker) Work(_ context.Context, job *river.Job[noJob]) error {
	w.a.arrived(job.Args.Key)
	return nil
}

// plainRiver measures River with its default settings.
func plainRiver(ctx context.Context, l *lab.Lab, url string, n int) ([]float64, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer pool.Close()
	a, workers := newArrivals(), river.NewWorkers()
	river.AddWorker(workers, &noWorker{a: a})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema: migrations.RiverSchema, Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 8}}, Logger: lab.Quiet(discard{}),
	})
	if err != nil {
		return nil, fmt.Errorf("making a River client: %w", err)
	}
	if err := client.Start(ctx); err != nil {
		return nil, fmt.Errorf("starting River: %w", err)
	}
	defer func() { _ = client.StopAndCancel(context.WithoutCancel(ctx)) }()
	lab.Rest(ctx, l)
	return stream(ctx, n, a, func(ctx context.Context, i int) (string, time.Time, error) {
		key := fmt.Sprint(i)
		_, err := client.Insert(ctx, noJob{key}, nil)
		return key, clock.Clock{}.Now(), err
	})
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

const (
	samples = 300
	gap     = 60 * time.Millisecond
)
