package cache

import (
	"testing"
	"time"
)

// A request that has read a right before a revocation must not store it for the requests after it.
func TestCacheEndsWithTheEpoch(t *testing.T) {
	t.Parallel()
	const live = time.Second
	var c Cache[string, int]
	now := time.Unix(1_900_000_000, 0)
	c.Put("key", 1, 1, now.Add(live))
	if v, found := c.Get("key", 2, now); found {
		t.Errorf("found %d of the epoch before", v)
	}
	c.Put("key", 2, 2, now.Add(live))
	if v, found := c.Get("key", 2, now); !found || v != 2 {
		t.Errorf("found %d, %t", v, found)
	}
	if v, found := c.Get("key", 2, now.Add(live)); found {
		t.Errorf("found %d after its end", v)
	}
}

// A flood of different tokens must not exhaust the memory.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	var c Cache[int, int]
	for i := range size + 100 {
		c.Put(i, i, 0, time.Time{})
	}
	if len(c.entries) != size {
		t.Errorf("%d entries", len(c.entries))
	}
}
