// Command bench measures the paths that docs/performance.md states goals for, each
// beside a peer that does the same durable work on the same machine in the same
// run. It prints one table and writes the same as JSON.
//
// It owns what it starts: a private, durable PostgreSQL, its peers, and processes
// of ours. It judges by ratios and counters and refuses nothing: a goal that is
// missed is a line in the table, not a failure.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/desired/validate"
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
	if name := os.Getenv(childVariable); name != "" {
		return child(ctx, name)
	}
	o, err := optionsFrom(os.Getenv)
	if err != nil {
		return err
	}
	o.Table, o.Log = os.Stdout, os.Stderr
	return run(ctx, o)
}

// options say what to measure and how large.
type options struct {
	Only  []string // goals by id; none: all
	Out   string   // JSON goes here as well
	Scale float64  // of the sizes; 1 is what the goals are stated for
	Idle  time.Duration
	Smoke bool // one pair instead of many, and no time to settle: proves only that it runs
	Table io.Writer
	Log   io.Writer
}

// idle is how long an idle loop is watched; BENCH_IDLE=10m is what R2 is stated
// for, a minute already shows every tick's cost sixty times.
const idle = time.Minute

func optionsFrom(env func(string) string) (o options, err error) {
	o = options{Out: env("BENCH_OUT"), Scale: 1, Idle: idle}
	for id := range strings.SplitSeq(env("BENCH_ONLY"), ",") {
		if id = strings.TrimSpace(id); id != "" {
			o.Only = append(o.Only, id)
		}
	}
	if text := env("BENCH_SCALE"); text != "" {
		if o.Scale, err = strconv.ParseFloat(text, 64); err != nil || o.Scale <= 0 {
			return o, fmt.Errorf("BENCH_SCALE is a number above 0, not %q", text)
		}
	}
	if text := env("BENCH_IDLE"); text != "" {
		if o.Idle, err = time.ParseDuration(text); err != nil {
			return o, fmt.Errorf("BENCH_IDLE: %w", err)
		}
	}
	return o, nil
}

// goal is one row, or a few that one run measures together.
type goal struct {
	id      string
	measure func(context.Context, *lab) ([]row, error)
}

func goals() []goal {
	return []goal{
		{"A1", createAllocation},
		{"A2", middlewares},
		{"A3", replays},
		{"R1", changedObjects},
		{"R2", idleLoop},
		{"A4", deepPage}, // over the fleet of R1 and R2
		{"R5", taskInHand},
		{"F1", waitingMemory},
		{"F2", storm},
		{"F3", ingest},
		{"F4", wakeAll},
		{"F5", idleAgent},
		{"L1", accrual},
		{"L2", jobForEach},
		{"L3", balances},
		{"L4", posting},
		{"L5", derivation},
		{"L6", limitedCreate},
		{"C1", validation},
		{"C2", wholeCheck},
		{"C3", wholeSource},
		{"C4", incrementalReads},
		{"C5", incrementalSync},
		{"U1", warmStart},
		{"U2", smallInstallation},
		{"U3", largeInstallation},
	}
}

func (o options) wants(id string) bool {
	return len(o.Only) == 0 || slices.Contains(o.Only, id)
}

// run measures what is asked for, one goal after the other.
func run(ctx context.Context, o options) (err error) {
	l, err := newLab(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	fmt.Fprintln(o.Table, setting(o))
	var all []row
	for _, g := range goals() {
		if !o.wants(g.id) {
			continue
		}
		began := clock.Clock{}.Now()
		rows, err := g.measure(ctx, l)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			rows = append(rows, row{ID: g.id, Path: "not measured", Skipped: err.Error()})
		}
		l.say("%s took %s", g.id, clock.Clock{}.Now().Sub(began).Round(time.Second))
		all = append(all, rows...)
	}
	if err := writeTable(o.Table, all); err != nil {
		return err
	}
	if o.Out == "" {
		return nil
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding results: %w", err)
	}
	if err := os.WriteFile(o.Out, append(text, '\n'), 0o644); err != nil { //nolint:gosec // results are for everyone
		return fmt.Errorf("writing results: %w", err)
	}
	return nil
}

func setting(o options) string {
	return fmt.Sprintf("%d cores, shared by the load, the server and PostgreSQL; sizes × %g; synchronous_commit=on, fsync=on, on disk; %s, %s/%s",
		runtime.NumCPU(), o.Scale, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func quiet(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelError}))
}
