package identity

import (
	"context"
	"sync"
	"time"
)

// Run forgets what is remembered whenever another process changes a right, until
// ctx ends. A lost hint costs cachedFor.
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
	// A revocation or a changed role that another process made is seen here
	// after this long at most, when its hint was lost; in this process at once.
	cachedFor = time.Second
	// About 4 MB of callers. Beyond it the request pays for one query.
	cacheSize = 10_000
)

// cache is a bounded map whose entries end. The zero value is ready to use.
type cache[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]cached[V]
	// epoch rises with each forgetting, so that an answer read before it is not
	// kept after it.
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

// put keeps value unless the cache was told to forget since epoch.
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
		for k := range c.entries { // any one: map order is as good as an eviction policy at this age
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
