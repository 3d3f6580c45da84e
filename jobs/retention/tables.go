package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/services"
)

// Table is the state of a table with partitions or with dead rows.
type Table struct {
	Name    string
	Missing int     // of this month and the next one
	Overdue int     // partitions that should have been dropped
	Bloat   float64 // dead rows by live rows
}

const (
	// bloated lies above what autovacuum leaves in a table that it reaches: it starts at a fifth.
	bloated = 1.0
	// leastDead leaves out small tables, whose ratio means nothing.
	leastDead = 10_000
	// grace is the time after which a partition is overdue. The job runs each hour.
	grace = 2 * day
)

// One month ahead: the job creates three, so that a missing one means weeks of failures.
const selectTables = `
	SELECT c.relname::text, count(*) FILTER (WHERE to_regclass(format('%I_%s', c.relname, to_char(month, 'YYYYMM'))) IS NULL)
	FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid CROSS JOIN unnest(ARRAY[
		$1::timestamptz AT TIME ZONE 'UTC', $1::timestamptz AT TIME ZONE 'UTC' + interval '1 month']) AS month
	WHERE c.relnamespace = 'public'::regnamespace GROUP BY c.relname ORDER BY c.relname`

const countOverdue = `SELECT count(*) FROM table_partitions WHERE name = $1 AND ends_at < $2`

const selectBloat = `
	SELECT relname::text, n_dead_tup::float8 / greatest(n_live_tup, 1) FROM pg_stat_user_tables
	WHERE n_dead_tup >= $1 ORDER BY 2 DESC LIMIT 50`

// Read returns the partitioned tables and those with many dead rows.
func Read(ctx context.Context, s *services.Services) ([]Table, error) {
	now, policy := s.Clock.Now(), s.Policies.Latest().For()
	rows, err := s.DB.Query(ctx, selectTables, now)
	if err != nil {
		return nil, fmt.Errorf("reading partitions: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(one pgx.CollectableRow) (t Table, err error) { return t, one.Scan(&t.Name, &t.Missing) })
	if err != nil {
		return nil, fmt.Errorf("reading partitions: %w", err)
	}
	for i := range all {
		for _, m := range Months() {
			if m.Table != all[i].Name {
				continue
			}
			due := now.Add(-m.days(policy) - grace)
			if err := s.DB.QueryRow(ctx, countOverdue, m.Table, due).Scan(&all[i].Overdue); err != nil {
				return nil, fmt.Errorf("counting partitions of %s: %w", m.Table, err)
			}
		}
	}
	if rows, err = s.DB.Query(ctx, selectBloat, leastDead); err != nil {
		return nil, fmt.Errorf("reading dead rows: %w", err)
	}
	dead, err := pgx.CollectRows(rows, func(one pgx.CollectableRow) (t Table, err error) { return t, one.Scan(&t.Name, &t.Bloat) })
	if err != nil {
		return nil, fmt.Errorf("reading dead rows: %w", err)
	}
	return append(all, dead...), nil
}

var (
	missing = prometheus.NewDesc("gpuaas_partitions_missing", "Partitions of this month and the next one that do not exist.", []string{"table"}, nil)
	overdue = prometheus.NewDesc("gpuaas_partitions_overdue", "Partitions that are older than the retention of their table.", []string{"table"}, nil)
	bloat   = prometheus.NewDesc("gpuaas_table_dead_rows_ratio", "Dead rows by live rows, of tables with many dead rows.", []string{"table"}, nil)
)

// Metrics collects the state of the tables at each scrape.
type Metrics struct{ *services.Services }

// scrapeTimeout bounds the queries, so that a slow database does not block scrapes.
const scrapeTimeout = 5 * time.Second

// Describe sends the descriptions of all metrics.
func (Metrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{missing, overdue, bloat} {
		c <- d
	}
}

// Collect reads the tables. What cannot be read is left out.
func (m Metrics) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) //nolint:forbidigo // Prometheus hands no context to a collector
	defer cancel()
	all, err := Read(ctx, m.Services)
	if err != nil {
		return
	}
	for _, t := range all {
		if t.Bloat > 0 {
			c <- prometheus.MustNewConstMetric(bloat, prometheus.GaugeValue, t.Bloat, t.Name)
			continue
		}
		c <- prometheus.MustNewConstMetric(missing, prometheus.GaugeValue, float64(t.Missing), t.Name)
		c <- prometheus.MustNewConstMetric(overdue, prometheus.GaugeValue, float64(t.Overdue), t.Name)
	}
}
