package restore

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/protocol"
)

// Gate is closed while a restore is not confirmed. A nil gate is open.
type Gate struct {
	DB  pg.Pool
	Log *slog.Logger

	mu      sync.Mutex
	open    *Restore      // nil: the gate is open
	began   time.Time     // of the newest restore; zero: the database was never restored
	changed chan struct{} // closed at the next change
}

// readEvery is the time until a confirmation, or a restore that began while the server ran, takes effect.
const readEvery = time.Second

// Refresh reads the state.
func (g *Gate) Refresh(ctx context.Context) error {
	open, err := Open(ctx, g.DB)
	if err != nil {
		return err
	}
	var began *time.Time
	if err := g.DB.QueryRow(ctx, selectLatest).Scan(&began); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if began != nil {
		g.began = *began
	}
	if (open == nil) != (g.open == nil) && g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
	g.open = open
	return nil
}

// Watch follows the state until ctx ends. If the database does not respond, the last state stays.
func (g *Gate) Watch(ctx context.Context) error {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		before := g.Restore()
		if err := g.Refresh(ctx); err != nil {
			if ctx.Err() == nil {
				g.Log.WarnContext(ctx, "the state of the restore was not read", "component", "restore", "err", err)
			}
			continue
		}
		switch after := g.Restore(); {
		case before == nil && after != nil:
			g.Log.ErrorContext(ctx, "the database was restored: this server changes nothing until an operator confirms it", "component", "restore")
		case before != nil && after == nil:
			g.Log.InfoContext(ctx, "the restore is confirmed", "component", "restore")
		}
	}
}

// Restore returns the restore that is not confirmed, or nil.
func (g *Gate) Restore() *Restore {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// Closed reports whether nothing may be changed.
func (g *Gate) Closed() bool { return g.Restore() != nil }

// BeganAt returns the begin of the newest restore, or zero. A token that was issued earlier is rejected.
func (g *Gate) BeganAt() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.began
}

// Message describes the closed gate to users; it is empty while the gate is open.
func (g *Gate) Message() string {
	r := g.Restore()
	if r == nil {
		return ""
	}
	return "The database was restored to " + r.RestoredTo.UTC().Format(time.RFC3339) + ". Nothing can be changed until an operator has confirmed it."
}

// Err rejects a change while the gate is closed.
func (g *Gate) Err() error {
	if !g.Closed() {
		return nil
	}
	return errs.New(errs.Unavailable, "the database was restored, and nothing is changed until an operator has confirmed it").
		Try("repeat it later; an operator runs gpuaas restore status and gpuaas restore confirm")
}

// While runs a loop while the gate is open, and ends it while the gate is closed. It returns the error of the loop, or nil when ctx
// ends.
func (g *Gate) While(ctx context.Context, run func(context.Context) error) error {
	return g.during(ctx, false, run)
}

func (g *Gate) during(ctx context.Context, closed bool, run func(context.Context) error) error {
	for ctx.Err() == nil {
		is, changed := g.watched()
		if is != closed {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		if err := until(ctx, changed, run); err != nil {
			return err
		}
	}
	return nil
}

// until runs a loop until the state changes, or ctx ends. A loop that ends by itself ends with the server.
func until(ctx context.Context, changed <-chan struct{}, run func(context.Context) error) error {
	during, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- run(during) }()
	select {
	case err := <-ended:
		return unlessCanceled(err)
	case <-ctx.Done():
	case <-changed:
	}
	end()
	return unlessCanceled(<-ended)
}

func unlessCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// watched returns the state and a channel that is closed at its next change.
func (g *Gate) watched() (closed bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.open != nil, g.changed
}

// Record stores the report of a node for the comparison while the gate is closed.
func (g *Gate) Record(ctx context.Context, node ids.Node, r protocol.Report) error {
	if !g.Closed() {
		return nil
	}
	return record(ctx, g.DB, node, r)
}

// Unknown returns those of the allocations that the node ran when a restore was confirmed and that the database does not know.
func (g *Gate) Unknown(ctx context.Context, q pg.Queryer, node ids.Node, of []uuid.UUID) ([]uuid.UUID, error) {
	if g == nil || len(of) == 0 {
		return nil, nil
	}
	return pg.List(ctx, q, "the unknown allocations", selectUnknown, pgx.RowTo[uuid.UUID], node, of)
}

// Metric is 1 while a restore is not confirmed.
func (g *Gate) Metric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gpuaas_restore_unconfirmed", Help: "1 while the database is restored and no operator has confirmed it, else 0.",
	}, func() float64 {
		if g.Closed() {
			return 1
		}
		return 0
	})
}
