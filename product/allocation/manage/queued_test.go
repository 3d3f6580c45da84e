package manage

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// The TTL of a queued allocation begins with its request: placement adds the time in the queue. That of another one
// begins now.
func TestTheTTLOfAQueuedAllocation(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	s := &Service{Service: &allocation.Service{Clock: clock.At(func() time.Time { return created.Add(time.Hour) })}}
	queued := allocation.Allocation{State: allocation.Requested, CreatedAt: created}
	running := allocation.Allocation{State: allocation.Active, CreatedAt: created, Node: ids.New[ids.Node]()}
	for want, a := range map[time.Duration]*allocation.Allocation{2 * time.Hour: &queued, 3 * time.Hour: &running} {
		s.patched(a, Patch{TTL: 2 * time.Hour})
		if got := a.ExpiresAt.Sub(created); got != want {
			t.Errorf("%s ends %s after its request, want %s", a.State, got, want)
		}
	}
}
