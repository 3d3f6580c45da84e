package jobs_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/jobs"
)

// The first revision of an installation shortens the window. What is charged must
// not wait for the end of the window that was the default until then.
func TestAShorterWindowIsFollowedAtOnce(t *testing.T) {
	t.Parallel()

	b := setup(t)
	if err := b.client.Stop(t.Context()); err != nil { // one leader: the one that has schedules
		t.Fatal(err)
	}
	var window atomic.Int64
	window.Store(int64(time.Hour))
	b.deps.Window = func() time.Duration { return time.Duration(window.Load()) }
	client, err := jobs.NewClient(b.DB, b.deps, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	follow := jobs.FollowPeriods(client, b.deps)
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { <-client.Stopped() })
	followed := make(chan struct{})
	go func() { defer close(followed); _ = follow(t.Context()) }()
	t.Cleanup(func() { <-followed })

	begun := func(n int) {
		t.Helper()
		var got int
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if err := b.DB.QueryRow(t.Context(), `SELECT count(*) FROM river.river_job WHERE kind = 'accrue'`).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if got >= n {
				return
			}
		}
		t.Fatalf("charged %d times, not %d", got, n)
	}
	begun(1) // at the start, and next in an hour
	window.Store(int64(100 * time.Millisecond))
	begun(4)
}
