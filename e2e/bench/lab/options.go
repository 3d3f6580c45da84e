package lab

import (
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options select the measurements and their size.
type Options struct {
	Only  []string // ids of goals; none means all
	Out   string   // file that also receives the result as JSON
	Scale float64  // factor of the sizes; the goals are stated for 1
	Idle  time.Duration
	Smoke bool // one pair and short waits: proves only that the bench runs
	Table io.Writer
	Log   io.Writer
}

// idle is the time for which an idle loop is measured. The goal R2 is stated for BENCH_IDLE=10m; a
// minute is shorter and still contains sixty ticks of one second.
const idle = time.Minute

func OptionsFrom(env func(string) string) (o Options, err error) {
	o = Options{Out: env("BENCH_OUT"), Scale: 1, Idle: idle}
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

func (o Options) Wants(id string) bool {
	return len(o.Only) == 0 || slices.Contains(o.Only, id)
}

func Setting(o Options) string {
	return fmt.Sprintf("%d cores, shared by the load, the server and PostgreSQL; sizes × %g; synchronous_commit=on, fsync=on, on disk; %s, %s/%s",
		runtime.NumCPU(), o.Scale, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func Quiet(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelError}))
}
