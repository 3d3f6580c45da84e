package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// beatEvery is the interval at which the agent checks its node. A check of an idle simulated node is one
// stat.
const beatEvery = 500 * time.Millisecond

// Run is one agent, until ctx ends.
func Run(ctx context.Context, c Config) error { return RunFleet(ctx, []Config{c}) }

// RunFleet runs many agents in one process until ctx ends. They share one timer. An agent whose
// configuration is not valid stops alone, and RunFleet returns its error at the end.
func RunFleet(ctx context.Context, configs []Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &fleet{starts: make(chan struct{}, startsAtOnce)}
	failed := make([]error, len(configs))
	var agents, timer sync.WaitGroup
	for i, c := range configs {
		agents.Go(func() {
			if err := f.run(ctx, c); err != nil {
				failed[i] = fmt.Errorf("agent in %s: %w", c.StateDir, err)
				if c.Log != nil {
					c.Log.ErrorContext(ctx, "agent stopped", "err", failed[i])
				}
			}
		})
	}
	timer.Go(func() { f.beat(ctx) })
	agents.Wait()
	cancel()
	timer.Wait()
	return errors.Join(failed...)
}

// startsAtOnce limits the handshakes and key generations that run at the same time when a fleet starts.
// More of them only make each slower.
const startsAtOnce = 16

type fleet struct {
	starts chan struct{}

	mu    sync.Mutex
	nodes []*node
}

func (f *fleet) run(ctx context.Context, c Config) error {
	if err := c.check(); err != nil {
		return err
	}
	lock, err := lockStateDir(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // which also unlocks
	select {
	case f.starts <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	// An agent that cannot enrol must release its place, because the other agents wait for one.
	leave := sync.OnceFunc(func() { <-f.starts })
	late := time.AfterFunc(time.Minute, leave)
	n, err := prepare(ctx, c)
	late.Stop()
	leave()
	if ctx.Err() != nil {
		return nil // ended during its start
	}
	if err != nil {
		return err
	}
	n.local.Start(ctx)
	f.mu.Lock()
	f.nodes = append(f.nodes, n)
	f.mu.Unlock()
	n.beat(ctx)
	n.finished() // results that a crash left pending
	n.poll(ctx)
	n.streams.Wait()
	n.local.Wait()
	n.drainOutbox()
	return nil
}

func (f *fleet) beat(ctx context.Context) {
	t := time.NewTicker(beatEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		f.mu.Lock()
		nodes := slices.Clip(f.nodes)
		f.mu.Unlock()
		for _, n := range nodes {
			n.beat(ctx)
		}
	}
}
