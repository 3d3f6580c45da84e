package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	// reportingNodes is the number of nodes that report in F3, and upsertedAtOnce the number of
	// rows in one statement of the peer.
	reportingNodes = 10_000
	upsertedAtOnce = 1000
	// nodeRole is the database role of the process that receives reports.
	nodeRole = "gpuaas_node"
	// heartbeats is the number of heartbeats of each node while the writes are counted.
	heartbeats = 100
	// patient is twenty times the default of the policy, while heartbeats arrive a thousand times
	// faster than in production. Renewals therefore weigh more here. unhurried is for timed
	// reports, where no report may become stale, however busy the computer is.
	patient   = 10 * time.Minute
	unhurried = 10 * time.Hour
)

// reports contains the nodes that report to one process.
type reports struct {
	pool     *pgxpool.Pool
	nodes    []ids.Node
	sequence int64
}

// Ingest compares the first reports that a process receives, each of which is one row, with pgbench
// writing the same number of rows in batches. It also counts the rows that later reports write.
func Ingest(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	atOnce := upsertedAtOnce
	if l.Smoke {
		atOnce /= 20
	}
	batches := max(l.Scaled(reportingNodes, lab.Connections*atOnce)/atOnce/lab.Connections, 1) * lab.Connections
	n := batches * atOnce
	url, err := l.Database(ctx, "f3")
	if err != nil {
		return nil, err
	}
	pool, err := pg.OpenAs(ctx, url, nodeRole, "bench", lab.Connections)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	r := &reports{pool: pool}
	for i := range n {
		r.nodes = append(r.nodes, ids.From[ids.Node](uuid.NewMD5(uuid.Nil, fmt.Appendf(nil, "n%d", i))))
	}
	if err := r.first(ctx); err != nil {
		return nil, err
	}
	if err := l.Exec(ctx, url, `CREATE TABLE f3_nodes (i int PRIMARY KEY, node_id uuid)`, `GRANT SELECT ON f3_nodes TO `+nodeRole,
		`INSERT INTO f3_nodes SELECT row_number() OVER (ORDER BY node_id), node_id FROM observed_nodes`, `VACUUM ANALYZE observed_nodes`, `VACUUM ANALYZE f3_nodes`); err != nil {
		return nil, err
	}
	peer, err := l.PgbenchAs(ctx, nodeRole, url, "upsert", upsert(atOnce), batches)
	if err != nil {
		return nil, err
	}
	vacuum := func(ctx context.Context) error {
		return l.Exec(ctx, url, `VACUUM observed_nodes`, `CHECKPOINT`)
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, vacuum, func(ctx context.Context) (took time.Duration, err error) {
		return took, r.under(ctx, unhurried, func(leases *observed.Leases) (err error) {
			took, err = r.hear(ctx, leases)
			return err
		})
	}, peer)
	if err != nil {
		return nil, err
	}
	first := lab.Throughput(p, n, "F3", fmt.Sprintf("%d unchanged reports to a process that knows none, a row each / pgbench, upsert of %d rows", n, atOnce)).AtLeast(0.5)
	first.Note = "from the decoded report; hashing it is ours alone"
	beats := heartbeats
	if l.Smoke {
		beats /= 20
	}
	written, err := r.counted(ctx, url, beats)
	if err != nil {
		return nil, err
	}
	all := float64(n * beats)
	rows := lab.Row{ID: "F3-rows", Path: fmt.Sprintf("rows written for each of %.0f unchanged heartbeats", all), Ours: written / all, Peer: 1, Ratio: written / all}
	rows.Min, rows.Max = rows.Ratio, rows.Ratio
	return []lab.Row{first, rows.AtMost(0.02)}, nil
}

// upsert returns a script of pgbench that writes one batch of rows.
func upsert(rows int) string {
	return fmt.Sprintf(`\set lo (:i * %[1]d + :client_id) * %[2]d
\set i :i + 1
INSERT INTO observed_nodes AS n (node_id, boot, boot_id, sequence, complete, agent, capability, inventory, content_hash, observed_at, stale_at)
	SELECT node_id, 1, 'b', 1, true, '1', 1, '{}', 'h', now(), now() + interval '10 h' FROM f3_nodes WHERE i > :lo AND i <= :lo + %[2]d
	ON CONFLICT (node_id) DO UPDATE SET observed_at = excluded.observed_at, stale_at = excluded.stale_at;
`, lab.Connections, rows)
}

func (r *reports) next() protocol.Report {
	return protocol.Report{
		Capability: 1, Agent: "1", BootID: "b", Boot: 1, Sequence: r.sequence, Complete: true,
		Inventory: protocol.Inventory{GPUs: []protocol.GPU{{UUID: "GPU-1", Model: "H100", Health: protocol.Healthy}}}, Allocations: []protocol.AllocationReport{},
	}
}

// first writes the row of every node.
func (r *reports) first(ctx context.Context) error {
	r.sequence = 1
	store := &observed.Store{DB: r.pool}
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		for _, n := range r.nodes {
			if _, err := store.Report(ctx, tx, n, r.next(), unhurried); err != nil {
				return err
			}
		}
		return nil
	})
}

// under lets a new process receive the reports.
func (r *reports) under(ctx context.Context, staleAfter time.Duration, do func(*observed.Leases) error) error {
	leases := &observed.Leases{DB: r.pool, Log: lab.Quiet(io.Discard), StaleAfter: func() time.Duration { return staleAfter }}
	running, end := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer end()
	beside.Go(func() { leases.Run(running) })
	for began := (clock.Clock{}).Now(); !leases.Sure(); {
		if (clock.Clock{}).Now().Sub(began) > lab.Patience {
			return errors.New("no lease was renewed")
		}
		lab.Wait(ctx, time.Millisecond)
	}
	return do(leases)
}

// hear receives one report of every node, all at the same time. The clock starts when all reports are decoded, because
// a handler has decoded its report on the same goroutine.
func (r *reports) hear(ctx context.Context, leases *observed.Leases) (time.Duration, error) {
	r.sequence++
	text, err := json.Marshal(r.next())
	if err != nil {
		return 0, fmt.Errorf("encoding a report: %w", err)
	}
	errs := make([]error, len(r.nodes))
	var decoded, all sync.WaitGroup
	begin := make(chan struct{})
	for i, n := range r.nodes {
		decoded.Add(1)
		all.Go(func() {
			var report protocol.Report
			err := json.Unmarshal(text, &report)
			decoded.Done()
			<-begin
			taken := false
			if err == nil {
				taken, err = leases.Again(ctx, n, report)
			}
			if err == nil && !taken {
				err = errors.New("an unchanged report was not accepted")
			}
			errs[i] = err
		})
	}
	decoded.Wait()
	began := (clock.Clock{}).Now()
	close(begin)
	all.Wait()
	return clock.Clock{}.Now().Sub(began), cmp.Or(errs...)
}

// counted returns the number of rows that this many heartbeats of each node write, renewals included.
func (r *reports) counted(ctx context.Context, url string, beats int) (written float64, err error) {
	const count = `SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::float8 FROM pg_stat_all_tables WHERE relname IN ('observed_nodes', 'observed_leases')`
	err = r.under(ctx, patient, func(leases *observed.Leases) error {
		if _, err := r.hear(ctx, leases); err != nil { // these are adopted
			return err
		}
		before, err := r.afterWrites(ctx, url, count)
		if err != nil {
			return err
		}
		for range beats {
			if _, err := r.hear(ctx, leases); err != nil {
				return err
			}
		}
		after, err := r.afterWrites(ctx, url, count)
		written = after - before
		return err
	})
	return written, err
}

// afterWrites reads a counter after the sessions have reported their statistics. An idle session reports them after ten
// seconds, and at its end.
func (r *reports) afterWrites(ctx context.Context, url, count string) (float64, error) {
	r.pool.Reset()
	lab.Wait(ctx, 2*time.Second)
	return lab.One[float64](ctx, url, count)
}
