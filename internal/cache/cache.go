// Package cache is a map in memory with a bound, whose entries end by time and by epoch.
package cache

import (
	"sync"
	"time"
)

// size is about 4 MB of callers. Beyond it a request pays for one query.
const size = 10_000

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
	if len(c.entries) >= size {
		for k := range c.entries { // a random entry is as good as an eviction policy at this age
			delete(c.entries, k)
			break
		}
	}
	c.entries[key] = cached[V]{value, epoch, until}
}
