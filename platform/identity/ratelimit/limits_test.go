package ratelimit_test

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity/ratelimit"
)

// The buckets refill one token in an hour here, so no test observes a refill.
func TestSharedLimitLetsItsBurstThroughOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	one, two := ratelimit.Limits{DB: db}, ratelimit.Limits{DB: db}
	passed := 0
	for i := range 10 {
		l := one
		if i%2 == 1 {
			l = two
		}
		allowed, fullIn, err := l.Allow(t.Context(), "sign-in:a", time.Hour, 3*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if allowed {
			passed++
		}
		if fullIn <= 0 || fullIn > 3*time.Hour {
			t.Errorf("request %d: full in %s", i, fullIn)
		}
	}
	if passed != 3 {
		t.Errorf("%d of 10 passed a limit of 3", passed)
	}
	if allowed, _, err := one.Allow(t.Context(), "sign-in:b", time.Hour, 3*time.Hour); !allowed || err != nil {
		t.Errorf("another bucket: %t, %v", allowed, err)
	}
}

func TestSharedLimitsAddUp(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	l := ratelimit.Limits{DB: db}
	share := func(within time.Duration, spent map[string]time.Duration) map[string]time.Duration {
		t.Helper()
		all, err := l.Share(t.Context(), spent, within)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	share(0, map[string]time.Duration{"a": time.Hour, "b": 2 * time.Hour})
	got := share(0, map[string]time.Duration{"b": time.Hour, "a": time.Hour, "c": time.Minute})
	for name, want := range map[string]time.Duration{"a": 2 * time.Hour, "b": 3 * time.Hour, "c": time.Minute} {
		if off := want - got[name]; off < 0 || off > time.Minute {
			t.Errorf("%s is full in %s, want about %s", name, got[name], want)
		}
	}
	// The bucket was emptied at some time within an hour, so an hour's refill is complete.
	if left := share(time.Hour, map[string]time.Duration{"d": time.Hour})["d"]; left > 0 {
		t.Errorf("d is full in %s", left)
	}
	if err := l.DeleteFull(t.Context()); err != nil {
		t.Error(err)
	}
	var n int
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM rate_limits").Scan(&n); err != nil || n != 4 {
		t.Errorf("%d buckets are left, %v", n, err)
	}
}

func TestSharedLimitsMeetInOneOrder(t *testing.T) {
	t.Parallel()
	l := ratelimit.Limits{DB: pgtest.Clone(t)}
	spent := map[string]time.Duration{}
	for _, name := range "abcdefghijklmnopqrstuvwxyz" {
		spent[string(name)] = time.Second
	}
	done := make(chan error)
	for range 4 {
		go func() {
			var err error
			for range 20 {
				if _, e := l.Share(t.Context(), spent, 0); e != nil {
					err = e
				}
			}
			done <- err
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
