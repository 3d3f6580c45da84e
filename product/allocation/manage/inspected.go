package manage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/slots"
)

// ConcludeAllocation ends an allocation whose slots operators have freed after an inspection.
type ConcludeAllocation struct {
	Allocation ids.Allocation `json:"allocation"`
}

// Kind names the job to River.
func (ConcludeAllocation) Kind() string { return "conclude_allocation" }

// InsertOpts uses River's 25 attempts, because no other job repeats this one.
func (ConcludeAllocation) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: keys.QueueAccess}
}

// ClearInspected frees a slot without a proof, after as many operators have inspected it as the policy
// requires. Its allocation must have failed: a node that still works on a release could write to the slot.
func (s *Service) ClearInspected(ctx context.Context, ch identity.Change[slots.Slot], id ids.Slot, reason string) (slots.Slot, error) {
	return s.Inventory.InspectSlot(ctx, ch, id, reason, func(ctx context.Context, tx pgx.Tx, holder ids.Allocation, freed bool) error {
		a, err := s.Lock(ctx, tx, holder)
		switch {
		case err != nil:
			return err
		case a.State != allocation.Failed && a.State != allocation.ReleaseFailed && a.State != allocation.Released:
			return errs.New(errs.NodeInUse, "allocation %s of the slot is %s", a.ID, a.State).With("allocation_id", a.ID.String()).
				Try("release it, and force the release if its node does not finish: gpuaas admin alloc force-release %s", a.ID)
		case !freed:
			return nil
		}
		if _, err := s.Jobs.InsertTx(ctx, tx, ConcludeAllocation{Allocation: a.ID}, nil); err != nil {
			return fmt.Errorf("queueing the end of %s: %w", a.ID, err)
		}
		return nil
	})
}
