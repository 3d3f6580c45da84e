package identity

import (
	"testing"
	"time"
)

// A request that has read a right before a revocation must not store it for the requests after it.
func TestCacheEndsWithTheEpoch(t *testing.T) {
	t.Parallel()
	var s Service
	var c Cache[string, int]
	now := time.Unix(1_900_000_000, 0)
	before := s.RightsEpoch()
	s.RightsChanged()
	c.Put("key", 1, before, now.Add(CachedFor))
	if v, found := c.Get("key", s.RightsEpoch(), now); found {
		t.Errorf("found %d of the epoch before", v)
	}
	c.Put("key", 2, s.RightsEpoch(), now.Add(CachedFor))
	if v, found := c.Get("key", s.RightsEpoch(), now); !found || v != 2 {
		t.Errorf("found %d, %t", v, found)
	}
	if v, found := c.Get("key", s.RightsEpoch(), now.Add(CachedFor)); found {
		t.Errorf("found %d after its end", v)
	}
}

// A flood of different tokens must not exhaust the memory.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	var c Cache[int, int]
	for i := range cacheSize + 100 {
		c.Put(i, i, 0, time.Time{})
	}
	if len(c.entries) != cacheSize {
		t.Errorf("%d entries", len(c.entries))
	}
}
