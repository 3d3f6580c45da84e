package money

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/migrations"
)

// sampled is the number of intervals for the slower side of L2. Its time for each interval does not
// depend on the number of intervals.
const sampled = 5_000

// chargeOne are the arguments of a job that charges one interval.
type chargeOne struct {
	Record uuid.UUID `json:"record"`
	From   int64     `json:"from"`
	To     int64     `json:"to"`
}

// Kind returns the job kind for River.
func (chargeOne) Kind() string { return "charge_one" }

type oneCharger struct {
	river.WorkerDefaults[chargeOne]

	db interface {
		Begin(ctx context.Context) (pgx.Tx, error)
	}
}

// chargeRecord writes the rows of a pass for one interval. It also writes a transfer and a revenue
// entry, because no other interval shares them.
const chargeRecord = `
	WITH r AS (
		SELECT gen_random_uuid() AS transfer, *, gpus * price_minor * ($3::bigint - start_s) / 3600 - gpus * price_minor * ($2::bigint - start_s) / 3600 AS amount
		FROM usage_records WHERE id = $1
	), t AS (
		INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor) SELECT transfer, 'usage', $3::text || ' ' || id, org_id, -amount FROM r
	)
	INSERT INTO ledger_entries (transfer_id, account_id, allocation_id, amount_minor, currency)
	SELECT transfer, account_id, allocation_id, -amount, currency FROM r
	UNION ALL SELECT r.transfer, a.id, NULL, r.amount, r.currency FROM r JOIN ledger_accounts a ON a.org_id IS NULL AND a.name = 'revenue' AND a.currency = r.currency`

func (w *oneCharger) Work(ctx context.Context, job *river.Job[chargeOne]) error {
	return pgx.BeginFunc(ctx, w.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, chargeRecord, job.Args.Record, job.Args.From, job.Args.To); err != nil {
			return fmt.Errorf("charging %s: %w", job.Args.Record, err)
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// JobForEach compares a pass of accrual with one job and one transaction for each interval, from
// the insert of the jobs to the last commit.
func JobForEach(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n, few := l.Scaled(intervals, 1000), l.Scaled(sampled, 100)
	m, err := newMeters(ctx, l, "l2", n)
	if err != nil {
		return nil, err
	}
	defer m.pool.Close()
	fresh := func(ctx context.Context) error {
		if err := m.fresh(ctx); err != nil {
			return err
		}
		return l.Exec(ctx, m.url, `TRUNCATE river.river_job`)
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, fresh, m.charge, func(ctx context.Context) (time.Duration, error) { return m.chargeEach(ctx, few) })
	if err != nil {
		return nil, err
	}
	// The measured time is scaled to the jobs of all intervals.
	for i := range p.B {
		p.B[i] *= float64(n) / float64(few)
	}
	p.CpuB *= float64(n) / float64(few)
	r := lab.Throughput(p, n, "L2", fmt.Sprintf("accrual of %d open intervals / a job for each", n)).AtLeast(50)
	r.Note = fmt.Sprintf("peer: a River job and a transaction for each interval, %d at once, measured on %d", lab.Connections, few)
	return []lab.Row{r}, nil
}

func (m *meters) chargeEach(ctx context.Context, few int) (time.Duration, error) {
	records, err := lab.One[[]uuid.UUID](ctx, m.url, fmt.Sprintf(`SELECT array_agg(id) FROM (SELECT id FROM usage_records LIMIT %d) r`, few))
	if err != nil {
		return 0, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &oneCharger{db: m.pool})
	client, err := river.NewClient(riverpgxv5.New(m.pool), &river.Config{
		Schema: migrations.RiverSchema, Logger: m.lab.Logger, Workers: workers, FetchCooldown: 2 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: lab.Connections}}, ReindexerSchedule: river.NeverSchedule(),
	})
	if err != nil {
		return 0, fmt.Errorf("making the job client: %w", err)
	}
	to := clock.Clock{}.Now().Unix()
	jobs := make([]river.InsertManyParams, len(records))
	for i, id := range records {
		jobs[i].Args = chargeOne{Record: id, From: to - 60, To: to}
	}
	if err := client.Start(ctx); err != nil {
		return 0, fmt.Errorf("starting the workers: %w", err)
	}
	began := clock.Clock{}.Now()
	if _, err := client.InsertMany(ctx, jobs); err != nil {
		return 0, fmt.Errorf("putting jobs in: %w", err)
	}
	for done := 0; done < 2*few; {
		if done, err = lab.One[int](ctx, m.url, `SELECT count(*) FROM ledger_entries`); err != nil {
			return 0, err
		}
		time.Sleep(5 * time.Millisecond)
	}
	took := clock.Clock{}.Now().Sub(began)
	if err := client.Stop(ctx); err != nil {
		return 0, fmt.Errorf("stopping the workers: %w", err)
	}
	return took, nil
}
