package identity

import (
	"context"
	"sync"
	"time"
)

// Topic is the hint that a caller may have lost a right.
const Topic = "identity"

// RightsChanged makes every process read rights from the database again. Call it after the commit.
func (s *Service) RightsChanged() {
	s.rights.Add(1)
	if s.Hints != nil {
		s.Hints.Send(Topic)
	}
}

// RightsEpoch is the epoch for a Cache of rights. Read it before the query. RightsChanged increases it,
// so that a right that was read before the change is not used after it.
func (s *Service) RightsEpoch() int64 { return s.rights.Load() }

// Run ends the cached rights whenever another process changes a right, until ctx ends. A lost hint costs
// CachedFor.
func (s *Service) Run(ctx context.Context) error {
	wake, stop := s.Hints.Listen(Topic)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
			s.rights.Add(1)
		}
	}
}

const (
	// CachedFor limits the delay of a revocation or a role change by another process whose hint was
	// lost. In the same process it has no delay.
	CachedFor = time.Second
	// About 4 MB of callers. Beyond it the request pays for one query.
	cacheSize = 10_000
)

// Cache is a bounded map whose entries end by time, and with the epoch in which they were read. The zero
// value is ready to use.
type Cache[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]cached[V]
}

type cached[V any] struct {
	value V
	epoch int64
	until time.Time
}

// Get returns the value of an entry that was read in this epoch and has not ended.
func (c *Cache[K, V]) Get(key K, epoch int64, now time.Time) (value V, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, found := c.entries[key]
	if !found || e.epoch != epoch || !now.Before(e.until) {
		return value, false
	}
	return e.value, true
}

// Put stores a value that was read in this epoch.
func (c *Cache[K, V]) Put(key K, value V, epoch int64, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[K]cached[V]{}
	}
	if len(c.entries) >= cacheSize {
		for k := range c.entries { // a random entry is as good as an eviction policy at this age
			delete(c.entries, k)
			break
		}
	}
	c.entries[key] = cached[V]{value, epoch, until}
}
