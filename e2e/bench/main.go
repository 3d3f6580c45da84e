// Command bench measures the paths for which docs/performance.md states goals. Each runs next to a
// peer that does the same durable work in the same run on the same computer. The command prints one
// table and writes the same rows as JSON.
//
// The bench starts all processes that it measures: a private, durable PostgreSQL, the peers, and
// processes of ours. It compares ratios and counters with the goals. A missed goal is a line of the
// table and not an error, because a busy computer may miss it, too.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/e2e/bench/access"
	"github.com/gpuaas/gpuaas/e2e/bench/api"
	"github.com/gpuaas/gpuaas/e2e/bench/change"
	"github.com/gpuaas/gpuaas/e2e/bench/events"
	"github.com/gpuaas/gpuaas/e2e/bench/install"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/e2e/bench/loop"
	"github.com/gpuaas/gpuaas/e2e/bench/money"
	"github.com/gpuaas/gpuaas/e2e/bench/node"
	"github.com/gpuaas/gpuaas/e2e/bench/storage"
	"github.com/gpuaas/gpuaas/e2e/bench/web"
	"github.com/gpuaas/gpuaas/e2e/bench/webhook"
	"github.com/gpuaas/gpuaas/internal/clock"
)

func main() {
	validate.Child() // does not return in the child that evaluates files
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func start(ctx context.Context) error {
	if name := os.Getenv(lab.ChildVariable); name != "" {
		return profiled(name, func() error { return child(ctx, name) })
	}
	o, err := lab.OptionsFrom(os.Getenv)
	if err != nil {
		return err
	}
	o.Table, o.Log = os.Stdout, os.Stderr
	return profiled("bench", func() error { return run(ctx, o) })
}

// profiled writes a CPU profile of this process to the folder BENCH_PROFILE, if it is set.
func profiled(name string, run func() error) error {
	dir := os.Getenv(lab.ProfileVariable)
	if dir == "" {
		return run()
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.prof", name, os.Getpid()))) //nolint:gosec // the caller names the folder
	if err != nil {
		return fmt.Errorf("making the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(err, f.Close())
	}
	err = run()
	pprof.StopCPUProfile()
	return errors.Join(err, f.Close())
}

// goal is one row of the table, or several rows of one measurement.
type goal struct {
	id      string
	measure func(context.Context, *lab.Lab) ([]lab.Row, error)
}

func goals() []goal {
	return []goal{
		{"A1", api.CreateAllocation},
		{"A2", api.Middlewares},
		{"A3", api.Replays},
		{"R1", loop.ChangedObjects},
		{"R2", loop.IdleLoop},
		{"A4", api.DeepPage}, // uses the fleet of R1 and R2
		{"R5", loop.TaskInHand},
		{"F1", node.WaitingMemory},
		{"F2", node.Storm},
		{"F3", node.Ingest},
		{"F4", node.WakeAll},
		{"F5", node.IdleAgent},
		{"F6", node.InspectHost},
		{"O1", events.Relaying},
		{"O2", events.Commits},
		{"O5", events.Consuming},
		{"O6", webhook.Deliveries},
		{"T1", access.Throughput},
		{"T1-stock", access.FromMemory},
		{"T1-relay", access.RelayLeg},
		{"T2", access.Echo},
		{"T3", access.Crowd},
		{"T4", access.Recordings},
		{"T5", access.Opening}, // and T6-hint
		{"T6", access.Ends},
		{"T7", node.WithoutStreams},
		{"L1", money.Accrual},
		{"L2", money.JobForEach},
		{"L3", money.Balances},
		{"L4", money.Posting},
		{"L5", money.Derivation},
		{"L6", money.LimitedCreate},
		{"B6", money.Storage},
		{"C1", change.Validation},
		{"C2", change.WholeCheck},
		{"C3", change.WholeSource},
		{"C4", change.IncrementalReads},
		{"C5", change.IncrementalSync},
		{"E6", change.Evidence},
		{"U1", install.WarmStart},
		{"U2", install.SmallInstallation},
		{"U3", install.LargeInstallation},
		{"W1", web.Sizes},
		{"W2", web.FirstPaint},
		{"W3", web.LongTable},
		{"W4", web.Interactions},
		{"W5", api.ReadModels},
		{"W6", web.EventToPixel},
		{"W7", web.Heap},
		{"B1", storage.Transfers}, // and B2
		{"B3", storage.Folder},
		{"B4", storage.Gateway},
		{"B5", storage.SmallFiles},
		{"B7", api.Metadata},
		{"B8", storage.Mounts},
		{"N1", events.FanOut},
		{"N2", events.Crowds},
		{"N3", events.Resume},
	}
}

// run executes the selected measurements one after the other.
func run(ctx context.Context, o lab.Options) (err error) {
	l, err := lab.NewLab(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	fmt.Fprintln(o.Table, lab.Setting(o))
	var all []lab.Row
	for _, g := range goals() {
		if !o.Wants(g.id) {
			continue
		}
		began := clock.Clock{}.Now()
		rows, err := g.measure(ctx, l)
		if ctx.Err() != nil { // the rows that were measured are printed
			break
		}
		if err != nil {
			rows = append(rows, lab.Row{ID: g.id, Path: "not measured", Skipped: err.Error()})
		}
		l.Say("%s took %s", g.id, clock.Clock{}.Now().Sub(began).Round(time.Second))
		all = append(all, rows...)
	}
	if err := lab.WriteTable(o.Table, all); err != nil {
		return err
	}
	if o.Out == "" {
		return ctx.Err()
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding results: %w", err)
	}
	if err := os.WriteFile(o.Out, append(text, '\n'), 0o644); err != nil { //nolint:gosec // results are for everyone
		return fmt.Errorf("writing results: %w", err)
	}
	return ctx.Err()
}
