package nodeapi

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// proven takes every allocation that is said to be gone for what it is: gone by a
// proof that the node's root half signed for this node, allocation and fence, or
// still there. Who speaks for a node cannot say that a slot is clean.
func (i *Intake) proven(ctx context.Context, tx pgx.Tx, node ids.Node, r *protocol.Report) error {
	gone := func(a protocol.AllocationReport) bool { return a.Phase == protocol.Gone }
	if !slices.ContainsFunc(r.Allocations, gone) {
		return nil
	}
	key, err := i.Inventory.ProofKey(ctx, tx, node)
	if err != nil {
		return err
	}
	for n := range r.Allocations {
		a := &r.Allocations[n]
		if !gone(*a) {
			continue
		}
		if err := a.Proof.Verify(key, node, a.Allocation, a.Fence); err != nil {
			// Broken, so that the release is ordered again, counted, and in the end shown
			// to a person; the slot stays dirty.
			a.Phase, a.Proof = protocol.Broken, nil
			a.Message = fmt.Sprintf("proof: %v, expected one that the node signed", err)
			i.unproven(ctx, node, *a)
		}
	}
	return nil
}

func (i *Intake) unproven(ctx context.Context, node ids.Node, a protocol.AllocationReport) {
	if i.Log != nil {
		i.Log.WarnContext(ctx, "a proof is not valid", "node", node, "allocation_id", a.Allocation, "fence", a.Fence, "why", a.Message)
	}
}
