package pgcluster

import (
	"context"
	"fmt"
	"time"
)

const (
	// restartPause prevents a server that ends at once from using a whole CPU.
	restartPause = 100 * time.Millisecond
	// restartTries is the number of failed starts in a row after which the supervisor stops and an
	// operator must act.
	restartTries = 5
)

// Supervise starts the server again whenever it dies, on the same socket, until
// ctx ends or Stop is called. It fails when the server cannot be started.
func (c *Cluster) Supervise(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.Done():
		}
		if over, err := c.restart(ctx); over || err != nil {
			return err
		}
	}
}

func (c *Cluster) restart(ctx context.Context) (over bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return true, nil
	}
	c.cfg.Log.Warn("postgres died, starting it again", "err", c.server.err)
	for try := range restartTries {
		if !pause(ctx, restartPause<<try) {
			return true, nil
		}
		if err = c.launch(ctx); err == nil {
			c.cfg.Log.Info("postgres is back")
			return false, nil
		}
		if ctx.Err() != nil {
			return true, nil
		}
		c.cfg.Log.Warn("postgres did not start", "err", err)
	}
	return false, fmt.Errorf("restarting postgres: %w", err)
}

// pause reports whether the time passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
