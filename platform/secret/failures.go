package secret

import (
	"context"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// Failures records the stored secrets that do not open: in a metric, in the log and as audit rows. Such a
// secret was changed in the database, or its key is missing.
type Failures struct {
	DB    pg.Pool
	Actor string // system:<role>
	Log   *slog.Logger
	// Metric counts the failures. It may be nil.
	Metric *prometheus.CounterVec

	mu     sync.Mutex
	places map[string]struct{}
}

// NewFailureMetric makes the metric, which all roles of a process share.
func NewFailureMetric() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpuaas_secret_open_failures_total",
		Help: "Stored secrets that did not open, by table and reason (version, key, content).",
	}, []string{"table", "reason"})
}

// maxPlaces limits the places that are remembered. Afterwards each failure has an audit row.
const maxPlaces = 10_000

// Record records a failure. A place has one audit row in the life of a process.
func (f *Failures) Record(ctx context.Context, at envelope.Place, err error) {
	reason := envelope.ReasonOf(err)
	if f == nil || reason == "" {
		return
	}
	if f.Metric != nil {
		f.Metric.WithLabelValues(at.Table, string(reason)).Inc()
	}
	if !f.first(at.String() + " " + string(reason)) {
		return
	}
	f.Log.ErrorContext(ctx, "a stored secret does not open", "component", "secret", "place", at.String(), "reason", reason, "err", err)
	b := &pgx.Batch{}
	audit.Queue(b, audit.Entry{
		By: audit.By{Actor: f.Actor}, Action: "secret.open_failed", Target: at.String(),
		After: map[string]any{"table": at.Table, "column": at.Column, "row": at.Row, "reason": string(reason)},
	})
	// Its own transaction: the caller's fails.
	ctx = pg.WithScope(context.WithoutCancel(ctx), pg.Platform)
	if lost := pgx.BeginFunc(ctx, f.DB, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() }); lost != nil {
		f.Log.ErrorContext(ctx, "a failed decryption has no audit row", "component", "secret", "place", at.String(), "err", lost)
	}
}

func (f *Failures) first(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.places[what]; known {
		return false
	}
	if f.places == nil {
		f.places = map[string]struct{}{}
	}
	if len(f.places) < maxPlaces {
		f.places[what] = struct{}{}
	}
	return true
}

// Fields seals the secrets that services store in columns, with the data keys of the installation.
type Fields struct {
	*envelope.Ring

	Failures *Failures
}

// Open opens a stored secret and records a failure.
func (f Fields) Open(ctx context.Context, sealed []byte, at envelope.Place) ([]byte, error) {
	text, err := f.Ring.Open(sealed, at)
	if err != nil {
		f.Failures.Record(ctx, at, err)
	}
	return text, err
}
