package helper

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/logs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// ofTasks returns the steps of provisioning and release of an allocation, from the journal. The text of an error is for
// operators and may name another account, so only its code is a line.
func (l *Local) ofTasks(of ids.Allocation) logs.Source {
	return polled(func() ([]logs.Line, bool, error) {
		record, err := l.runner.History(of, math.MaxInt64) // a release has a later fence than the stream
		if err != nil {
			return nil, true, nil //nolint:nilerr // its record was deleted
		}
		return linesOf(record), record.Released(), nil
	})
}

// linesOf returns the lines of a record in the sequence of events.
func linesOf(record journal.Record) (lines []logs.Line) {
	add := func(at time.Time, format string, args ...any) {
		if n := len(lines); n > 0 && at.Before(lines[n-1].At) {
			at = lines[n-1].At
		}
		lines = append(lines, logs.Line{At: at, Text: fmt.Sprintf(format, args...)})
	}
	for _, t := range record.Tasks {
		what := fmt.Sprintf("%s, attempt %d", t.Envelope.Type, t.Envelope.Attempt)
		add(t.Envelope.SignedAt(), "%s: accepted", what)
		for i, step := range t.Begun {
			at := t.Envelope.SignedAt()
			if i < len(t.BegunAt) {
				at = t.BegunAt[i]
			}
			add(at, "%s: step %s", what, step)
		}
		switch r := t.Result; {
		case r == nil:
		case r.Outcome == protocol.Succeeded:
			add(r.FinishedAt, "%s: succeeded", what)
		default:
			add(r.FinishedAt, "%s: %s with %s at step %s", what, r.Outcome, r.Code, r.Step)
		}
	}
	return lines
}

// polled is a source whose lines are read whole each time and only grow at the end.
func polled(read func() (lines []logs.Line, over bool, err error)) logs.Source {
	return func(ctx context.Context, s logs.Scope, each func(logs.Line)) error {
		for sent := 0; ; {
			lines, over, err := read()
			if err != nil {
				return err
			}
			for ; sent < len(lines); sent++ {
				if !lines[sent].At.Before(s.Since) {
					each(lines[sent])
				}
			}
			if over || !s.Follow || !pause(ctx) {
				return nil
			}
		}
	}
}

// faults are the faults of GPUs that their driver has reported, with the times at which this process has read them.
type faults struct {
	mu   sync.Mutex
	all  []faultLine
	open map[string]bool // those in the last reports
	lost int             // entries before all
}

type faultLine struct {
	gpu  string
	line logs.Line
}

// maxFaults limits the stored faults of a node.
const maxFaults = 1024

// note adds the faults that are new in a report. The kernel log is no evidence: programs write to it.
func (f *faults) note(reports []protocol.HealthReport, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	open := map[string]bool{}
	for _, r := range reports {
		if r.Target == "" || r.Level == protocol.Healthy || r.Evidence != protocol.FromDriver {
			continue
		}
		key := r.Target + " " + r.Check
		if open[key] = true; f.open[key] {
			continue
		}
		f.all = append(f.all, faultLine{r.Target, logs.Line{At: now.UTC().Truncate(time.Microsecond), Text: fmt.Sprintf("GPU %s: %s (%s)", r.Target, r.Message, r.Level)}})
	}
	f.open = open
	if over := len(f.all) - maxFaults; over > 0 {
		f.all, f.lost = slices.Clone(f.all[over:]), f.lost+over
	}
}

// source returns the faults of some GPUs.
func (f *faults) source(gpus []string) logs.Source {
	return func(ctx context.Context, s logs.Scope, each func(logs.Line)) error {
		for next := 0; ; {
			f.mu.Lock()
			from := max(0, next-f.lost)
			fresh := slices.Clone(f.all[from:])
			next = f.lost + len(f.all)
			f.mu.Unlock()
			for _, one := range fresh {
				if slices.Contains(gpus, one.gpu) && !one.line.At.Before(s.Since) {
					each(one.line)
				}
			}
			if !s.Follow || !pause(ctx) {
				return nil
			}
		}
	}
}
