// Package pgstat exports the state of PostgreSQL: locks, the oldest transaction, the distance to a wraparound, replication
// and size. It needs no right of a role, and no statement reads a table of the product.
package pgstat

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/pg"
)

const (
	// scrapeTimeout bounds the statements of a scrape, so that a slow database does not block scrapes.
	scrapeTimeout = 5 * time.Second
	// sizeEvery is the interval at which the size is read: PostgreSQL reads the size of each file of the database.
	sizeEvery = 5 * time.Minute
)

// readState is the only statement of most scrapes. Views with the start of other sessions' transactions hide it from roles
// without pg_monitor. pg_locks hides nothing, and each open transaction has its virtual transaction id locked there.
const readState = `
	SELECT count(*) FILTER (WHERE NOT granted),
		coalesce(greatest(extract(epoch FROM clock_timestamp() - min(waitstart)), 0), 0)::float8,
		coalesce(array_agg(virtualtransaction) FILTER (WHERE locktype = 'virtualxid' AND mode = 'ExclusiveLock'), '{}'),
		(SELECT max(age(datfrozenxid)) FROM pg_database), (SELECT max(mxid_age(datminmxid)) FROM pg_database),
		(SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn))::float8 FROM pg_replication_slots),
		deadlocks, xact_commit, xact_rollback
	FROM pg_locks, (SELECT deadlocks, xact_commit, xact_rollback FROM pg_stat_database WHERE datname = current_database()) AS of_database
	GROUP BY deadlocks, xact_commit, xact_rollback`

const readSize = `SELECT pg_database_size(current_database())`

var (
	lockWaits    = prometheus.NewDesc("gpuaas_db_lock_waits", "Locks of PostgreSQL that sessions wait for.", nil, nil)
	lockWaitTime = prometheus.NewDesc("gpuaas_db_lock_wait_seconds", "Time for which the first of them has waited.", nil, nil)
	oldest       = prometheus.NewDesc("gpuaas_db_oldest_transaction_seconds", "Time since the first scrape that found the oldest open transaction.", nil, nil)
	unfrozen     = prometheus.NewDesc("gpuaas_db_transaction_id_age", "Transaction ids since the oldest one that is not frozen. PostgreSQL accepts no writes at 2 billion.", []string{"kind"}, nil)
	replication  = prometheus.NewDesc("gpuaas_db_replication_lag_bytes", "WAL that the slowest replication slot has not received. Absent without a slot.", nil, nil)
	deadlocks    = prometheus.NewDesc("gpuaas_db_deadlocks_total", "Deadlocks of the database.", nil, nil)
	transactions = prometheus.NewDesc("gpuaas_db_transactions_total", "Transactions of the database, by result.", []string{"result"}, nil)
	size         = prometheus.NewDesc("gpuaas_db_size_bytes", "Size of the database, read every five minutes.", nil, nil)
)

// Metrics collects the state at each scrape. A value that cannot be read is absent.
type Metrics struct {
	DB    pg.Queryer
	Clock clock.Clock

	mu     sync.Mutex
	open   map[string]time.Time // transactions, with the first scrape that found them
	size   int64
	sizeAt time.Time
}

// Describe sends the descriptions of all metrics.
func (*Metrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lockWaits, lockWaitTime, oldest, unfrozen, replication, deadlocks, transactions, size} {
		c <- d
	}
}

// Collect reads the state.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) //nolint:forbidigo // Prometheus hands no context to a collector
	defer cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collectState(ctx, c)
	if now := m.Clock.Now(); m.sizeAt.IsZero() || now.Sub(m.sizeAt) >= sizeEvery {
		if m.DB.QueryRow(ctx, readSize).Scan(&m.size) != nil {
			return
		}
		m.sizeAt = now
	}
	c <- prometheus.MustNewConstMetric(size, prometheus.GaugeValue, float64(m.size))
}

func (m *Metrics) collectState(ctx context.Context, c chan<- prometheus.Metric) {
	var waits, waited, xids, multixacts, deadlocked, committed, rolledBack float64
	var open []string
	var lag *float64
	if m.DB.QueryRow(ctx, readState).Scan(&waits, &waited, &open, &xids, &multixacts, &lag, &deadlocked, &committed, &rolledBack) != nil {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(lockWaits, waits)
	gauge(lockWaitTime, waited)
	gauge(oldest, m.age(open).Seconds())
	gauge(unfrozen, xids, "transaction")
	gauge(unfrozen, multixacts, "multixact")
	if lag != nil {
		gauge(replication, *lag)
	}
	c <- prometheus.MustNewConstMetric(deadlocks, prometheus.CounterValue, deadlocked)
	c <- prometheus.MustNewConstMetric(transactions, prometheus.CounterValue, committed, "commit")
	c <- prometheus.MustNewConstMetric(transactions, prometheus.CounterValue, rolledBack, "rollback")
}

// age returns the time since the first scrape that found the oldest of the open transactions. Those that have ended
// are deleted, so that there are never more than PostgreSQL has sessions.
func (m *Metrics) age(open []string) (longest time.Duration) {
	now, found := m.Clock.Now(), map[string]time.Time{}
	for _, id := range open {
		first, before := m.open[id]
		if !before {
			first = now
		}
		found[id] = first
		longest = max(longest, now.Sub(first))
	}
	m.open = found
	return longest
}
