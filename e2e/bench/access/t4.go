package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
)

const (
	// recorded is the number of bytes that one run prints. A recording has 64 MiB by default, and that of a terminal that must
	// be recorded ends it.
	recorded = 48 << 20
	// tries limits the terminals that are opened until one has the policy that was set.
	tries = 5
)

// Recordings compares the output of a terminal that must be recorded with that of one that is not recorded.
func Recordings(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	r, err := start(ctx, l, "t4")
	if err != nil {
		return nil, err
	}
	defer r.server.Stop()
	n := l.Scaled(recorded, 1<<20)
	under := func(policy string) lab.Side {
		return func(ctx context.Context) (time.Duration, error) { return r.floodUnder(ctx, policy, n) }
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, nothing, under("required"), under("off"))
	if err != nil {
		return nil, err
	}
	row := lab.Throughput(p, n>>10, "T4", fmt.Sprintf("output of a terminal that must be recorded, %d MiB / the same without a recording", n>>20)).AtLeast(0.75)
	row.CPUOurs, row.CPUPeer = 0, 0 // each run has a terminal of its own, and opens it
	return []lab.Row{row}, nil
}

// floodUnder prints n bytes in a new terminal under a policy of recordings, and returns the time of the output.
func (r *rig) floodUnder(ctx context.Context, policy string, n int) (time.Duration, error) {
	if err := r.server.Run(ctx, "--profile", "default-admin", "policy", "set", "terminal.recording", policy); err != nil {
		return 0, err
	}
	for range tries {
		t, err := r.terminal(ctx)
		if err != nil {
			return 0, err
		}
		err = t.quiet()
		began := clock.Clock{}.Now()
		right := t.recorded == (policy != "off")
		if err == nil && right {
			err = t.flood(n)
		}
		took := clock.Clock{}.Now().Sub(began)
		if err = errors.Join(err, t.exit()); err != nil || right {
			return took, err
		}
		lab.Wait(ctx, 20*lab.Poll) // the hint about the policy is on its way
	}
	return 0, fmt.Errorf("terminals do not follow the policy %q", policy)
}
