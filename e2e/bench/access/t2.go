package access

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/e2e/bench/loop"
	"github.com/gpuaas/gpuaas/internal/clock"
)

// keystrokes is the number of measured echoes of one side.
const keystrokes = 2000

// Echo compares the time from a keystroke to its echo with that of a direct SSH client, alone and next to a terminal that prints
// as fast as it can.
func Echo(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	r, err := start(ctx, l, "t2")
	if err != nil {
		return nil, err
	}
	defer r.server.Stop()
	ours, err := r.terminal(ctx)
	if err != nil {
		return nil, err
	}
	peer, err := r.direct()
	if err != nil {
		return nil, err
	}
	n := l.Scaled(keystrokes, 20)
	through, direct, err := echoes(&ours.shell, peer, n)
	if err != nil {
		return nil, err
	}
	rows := []lab.Row{
		latency("T2", "keystroke to echo in a terminal / by a direct Go SSH client, p50", through, direct, 0.5).AtMost(1.5),
		latency("T2-p99", "the same, p99", through, direct, 0.99).AtMost(3),
	}
	noisy, err := r.terminal(ctx)
	if err != nil {
		return rows, err
	}
	if err := noisy.types("yes | tr -d '\\n'\n"); err != nil {
		return rows, err
	}
	go func() { _, _ = io.Copy(io.Discard, noisy) }()
	through, direct, err = echoes(&ours.shell, peer, n)
	if err != nil {
		return rows, err
	}
	return append(rows,
		latency("T2-flood", "both next to a terminal that prints all the time, p50", through, direct, 0.5).AtMost(1.5),
		latency("T2-flood-p99", "the same, p99", through, direct, 0.99).AtMost(3),
	), noisy.close()
}

// echoes types a character in each shell in turn, and returns the seconds until it is printed.
func echoes(ours, peer *shell, n int) (through, direct []float64, err error) {
	for range n {
		for _, s := range []struct {
			*shell

			took *[]float64
		}{{ours, &through}, {peer, &direct}} {
			began := clock.Clock{}.Now()
			if err := s.types("~"); err != nil {
				return nil, nil, err
			}
			if _, err := s.until("~"); err != nil {
				return nil, nil, err
			}
			*s.took = append(*s.took, clock.Clock{}.Now().Sub(began).Seconds())
		}
	}
	return through, direct, nil
}

func latency(id, path string, ours, peer []float64, quantile float64) lab.Row {
	r := lab.Row{ID: id, Path: path, Unit: " ms", Ours: 1000 * lab.Quantile(ours, quantile), Peer: 1000 * lab.Quantile(peer, quantile), Note: fmt.Sprintf("%d samples", len(ours))}
	r.Ratio = r.Ours / r.Peer
	r.Min, r.Max = r.Ratio, r.Ratio
	return r
}

// opened is the number of terminals that are opened and ended. A user may open 60 in a minute.
const opened = 25

// wakeUps is the number of measured wake-ups of a poll.
const wakeUps = 100

// Opening measures the time from the request for a token to the prompt, and from the end of a session to its last byte.
func Opening(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	r, err := start(ctx, l, "t5")
	if err != nil {
		return nil, err
	}
	prompt, direct, ends, err := r.open(ctx, max(min(opened, l.Scaled(20*opened, 2)), 2))
	r.server.Stop()
	if err != nil {
		return nil, err
	}
	waits, err := loop.PollWakeUps(ctx, l, l.Scaled(wakeUps, 5))
	if err != nil {
		return nil, err
	}
	wakeUp := lab.Median(waits)
	open := latency("T5", "token to prompt of a terminal / direct dial to prompt + wake-up of a poll, p50", prompt, direct, 0.5)
	open.Note += fmt.Sprintf(", p50; of the peer %.1f ms are the dial and %.1f ms the wake-up", open.Peer, wakeUp)
	open.Peer += wakeUp
	open.Ratio = open.Ours / open.Peer
	open.Min, open.Max = open.Ratio, open.Ratio
	return []lab.Row{
		open.AtMost(2),
		bounded("T5-p99", "the same, p99", " ms", lab.Quantile(prompt, 0.99)*1000, 500),
		bounded("T6-hint", "request to end a terminal to its last byte, when the hint arrives, p99", " s", lab.Quantile(ends, 0.99), 2),
	}, nil
}

// open opens n terminals and as many shells of a direct SSH client, and ends them. It returns seconds.
func (r *rig) open(ctx context.Context, n int) (prompt, direct, ends []float64, err error) {
	for range n {
		began := clock.Clock{}.Now()
		s, err := r.direct()
		if err == nil {
			_, err = s.until("$ ")
		}
		if err != nil {
			return nil, nil, nil, err
		}
		direct = append(direct, clock.Clock{}.Now().Sub(began).Seconds())
		_ = s.close()
		began = clock.Clock{}.Now()
		t, err := r.terminal(ctx)
		if err == nil {
			_, err = t.until("$ ")
		}
		if err != nil {
			return nil, nil, nil, err
		}
		prompt = append(prompt, clock.Clock{}.Now().Sub(began).Seconds())
		took, err := r.end(ctx, t)
		if err != nil {
			return nil, nil, nil, err
		}
		ends = append(ends, took.Seconds())
	}
	return prompt, direct, ends, nil
}

// end ends a terminal whose shell prints all the time, and returns the time until its last byte.
func (r *rig) end(ctx context.Context, t *terminal) (time.Duration, error) {
	if err := t.types("yes\n"); err != nil {
		return 0, err
	}
	if _, err := t.until("y"); err != nil {
		return 0, err
	}
	ended := make(chan time.Time, 1)
	go func() {
		_, _ = io.Copy(io.Discard, t)
		ended <- clock.Clock{}.Now()
	}()
	began := clock.Clock{}.Now()
	if err := r.send(ctx, "DELETE", "/terminal-sessions/"+t.id, nil, nil); err != nil {
		return 0, err
	}
	select {
	case at := <-ended:
		return at.Sub(began), nil
	case <-time.After(within):
		return 0, fmt.Errorf("the terminal did not end within %s", within)
	}
}

func bounded(id, path, unit string, value, limit float64) lab.Row {
	return lab.Row{
		ID: id, Path: path, Unit: unit, Ours: value, Peer: limit, Ratio: value / limit, Min: value / limit, Max: value / limit,
		Goal: fmt.Sprintf("≤ %g%s", limit, unit), Met: new(value <= limit),
	}
}
