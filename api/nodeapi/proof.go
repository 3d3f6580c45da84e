package nodeapi

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// proven verifies the proof of each allocation that is reported as gone. The helper of the node
// must have signed the proof for this node, allocation and fence. The network process of a node can
// send reports, but it cannot claim that a slot is clean.
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
			// With phase Broken, the loop requests the release again and counts the attempt. When
			// the attempts are exhausted, the API reports this to an operator. The slot stays
			// dirty.
			a.Phase, a.Proof = protocol.Broken, nil
			a.Message = fmt.Sprintf("proof: %v, expected one that the node signed", err)
			i.unproven(ctx, node, *a)
		}
	}
	return nil
}

func (i *Intake) unproven(ctx context.Context, node ids.Node, a protocol.AllocationReport) {
	if i.Log != nil {
		i.Log.WarnContext(ctx, "a proof is not valid", "node", node, "allocation_id", a.Allocation, "fence", a.Fence, "reason", a.Message)
	}
}
