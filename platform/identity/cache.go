package identity

import (
	"context"
	"sync"
	"time"
)

// Run clears the caches whenever another process changes a right, until ctx ends. A lost hint costs
// cachedFor.
func (s *Service) Run(ctx context.Context) error {
	wake, stop := s.Hints.Listen(Topic)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
			s.tokens.forget()
			s.projects.forget()
		}
	}
}

const (
	// cachedFor limits the delay of a revocation or a role change by another process whose hint was
	// lost. In the same process it has no delay.
	cachedFor = time.Second
	// About 4 MB of callers. Beyond it the request pays for one query.
	cacheSize = 10_000
)

// cache is a bounded map whose entries end. The zero value is ready to use.
type cache[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]cached[V]
	// epoch increases whenever the cache is cleared, so that a value read before is not stored after.
	epoch int64
}

type cached[V any] struct {
	value V
	until time.Time
}

func (c *cache[K, V]) get(key K, now time.Time) (value V, epoch int64, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, found := c.entries[key]
	if !found || !now.Before(e.until) {
		return value, c.epoch, false
	}
	return e.value, c.epoch, true
}

// put stores value unless the cache was cleared since epoch.
func (c *cache[K, V]) put(key K, value V, until time.Time, epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.epoch {
		return
	}
	if c.entries == nil {
		c.entries = map[K]cached[V]{}
	}
	if len(c.entries) >= cacheSize {
		for k := range c.entries { // a random entry is as good as an eviction policy at this age
			delete(c.entries, k)
			break
		}
	}
	c.entries[key] = cached[V]{value, until}
}

func (c *cache[K, V]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	clear(c.entries)
}
