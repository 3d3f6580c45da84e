package manage

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/condition"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/product/slots/place"
)

// Pending is the reason why a request waits, and the change that would place it.
type Pending struct {
	Since      time.Time
	Position   int        // in the queue for its SKU; 1 is next
	DeadlineAt *time.Time // when it is given up
	Left       []place.Left
	Fits       []place.Fit
}

// Pending explains why an allocation waits. Only operators see the names of nodes; the TTLs are those of
// allocations in the caller's scope.
func (s *Service) Pending(ctx context.Context, a allocation.Allocation, named bool) (Pending, error) {
	p := Pending{Since: a.CreatedAt, DeadlineAt: a.QueueUntil, Position: 1}
	var before int
	if err := s.DB.QueryRow(ctx, countBefore, a.SKU, a.CreatedAt, a.ID).Scan(&before); err != nil {
		return Pending{}, fmt.Errorf("counting who waits before %s: %w", a.ID, err)
	}
	p.Position += before
	nodes, err := s.Inventory.Candidates(ctx, a.SKU)
	if err != nil {
		return Pending{}, err
	}
	leases, err := s.leases(ctx, nodes)
	if err != nil {
		return Pending{}, err
	}
	p.Left, p.Fits = place.Explain(candidates(nodes, leases, named), a.Region, a.GPUs, s.Clock.Now())
	return p, nil
}

type lease struct {
	name string
	ends time.Time // zero: it has no end
}

// leases reads the expiry of the allocations that the caller may see.
func (s *Service) leases(ctx context.Context, nodes []slots.Candidate) (map[uuid.UUID]lease, error) {
	var holders []uuid.UUID
	for _, n := range nodes {
		for _, u := range n.Slots {
			if u.Holder != nil {
				holders = append(holders, *u.Holder)
			}
		}
	}
	rows, err := s.DB.Query(ctx, selectLeases, holders)
	if err != nil {
		return nil, fmt.Errorf("reading leases: %w", err)
	}
	all := map[uuid.UUID]lease{}
	var id ids.Allocation
	var l lease
	var ends *time.Time
	if _, err := pgx.ForEachRow(rows, []any{&id, &l.name, &ends}, func() error {
		l.ends = time.Time{}
		if ends != nil {
			l.ends = *ends
		}
		all[id.UUID] = l
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading leases: %w", err)
	}
	return all, nil
}

func candidates(nodes []slots.Candidate, leases map[uuid.UUID]lease, named bool) []place.Candidate {
	all := make([]place.Candidate, len(nodes))
	for i, n := range nodes {
		c := place.Candidate{Region: n.Region, Enrolled: n.Enrolled, Reachable: n.Reachable, Cordoned: n.Cordoned}
		if named {
			c.Name = n.Name
		}
		for _, u := range n.Slots {
			unit := place.Unit{Status: u.Status}
			if u.Holder != nil {
				unit.Holder, unit.Ends = leases[*u.Holder].name, leases[*u.Holder].ends
			}
			c.Slots = append(c.Slots, unit)
		}
		all[i] = c
	}
	return all
}

const (
	countBefore = `
		SELECT count(*) FROM allocations WHERE node_id IS NULL AND status = 'requested' AND sku = $1 AND (created_at, id) < ($2, $3)`
	// Row-level security leaves those that the caller may see.
	selectLeases = `SELECT id, name, expires_at FROM allocations WHERE id = ANY ($1::uuid[])`
)

// Why is the explanation of the state of an allocation: the actor who must act next, and the time at which the
// platform ends the wait.
type Why struct {
	Waits           bool
	Owner           string // none | platform | node | operator | tenant
	Reason, Message string
	Since           time.Time
	DeadlineAt      *time.Time
	Pending         // of a queued allocation
}

// Explain returns what an allocation waits for. It is pure: the conditions are the evidence.
func (s *Service) Explain(a allocation.Allocation, seen condition.Observed) Why {
	ready := condition.Of(a, seen)[0]
	w := Why{Waits: true, Owner: "node", Reason: ready.Reason, Message: ready.Message, Since: a.StatusAt}
	within := func(d time.Duration) *time.Time {
		at := a.StatusAt.Add(d)
		return &at
	}
	switch a.State {
	case allocation.Requested, allocation.Provisioning:
		w.DeadlineAt = within(s.ProvisionDeadline())
		if a.Queued() {
			w.Owner, w.DeadlineAt = "platform", a.QueueUntil
		}
	case allocation.Releasing:
		w.DeadlineAt = within(s.ReleaseDeadline())
	case allocation.ReleaseFailed:
		w.Owner, w.Message = "operator", a.Message
	case allocation.Active:
		w.Waits, w.Owner = ready.Status != "True" || seen.Fault != "", "operator"
		switch {
		case seen.Fault != "":
			w.Message, w.Reason, w.Since = seen.Fault, "HealthCheckFailed", seen.FaultSince
		case a.EvictAt != nil:
			w.Waits, w.Owner, w.Reason, w.Message, w.DeadlineAt = true, "tenant", "NodeDrain", "its node is drained: "+a.EvictReason, a.EvictAt
		case a.IdleReleaseAt != nil:
			w.Waits, w.Owner, w.Reason, w.Message, w.DeadlineAt = true, "tenant", "Idle", "its GPUs are idle", a.IdleReleaseAt
		case w.Waits && seen.Phase == "broken":
			w.Owner = "node"
		}
	case allocation.Released, allocation.Failed:
		w.Waits = false
	}
	if !w.Waits {
		w.Owner = "none"
	}
	return w
}
