package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
)

// ResetGPU queues the reset of one GPU in the mailbox of its node.
type ResetGPU struct {
	Node ids.Node `json:"node"`
	GPU  string   `json:"gpu"`
}

// Kind names the job to River.
func (ResetGPU) Kind() string { return "reset_gpu" }

// InsertOpts gives up soon: an operator waits, and repeats the request.
func (ResetGPU) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: keys.QueueAccess, MaxAttempts: 3} //nolint:mnd // attempts
}

// ResetGPU requests the reset of an idle GPU. No allocation may have its slot, and the slot must not be for sale:
// a claim during the reset would lose its device.
func (s *Service) ResetGPU(ctx context.Context, ch identity.Change[Node], name, gpu, reason string) (Node, error) {
	return s.ChangeNode(ctx, ch, name, "gpu_reset", func(tx pgx.Tx, n Node, _ *pgx.Batch) (any, error) {
		devices, err := s.devices(ctx, tx, n.ID)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(devices, func(d Device) bool { return d.UUID == gpu })
		switch {
		case i < 0:
			return nil, errs.New(errs.NotFound, "node %s has no GPU %s", name, gpu)
		case devices[i].SlotStatus == "claimed":
			return nil, errs.New(errs.NodeInUse, "the slot of %s is claimed", gpu).Try("wait until its allocation ends, or drain the node")
		case devices[i].SlotStatus == "clean" && !n.Cordoned:
			return nil, errs.New(errs.NodeInUse, "the slot of %s is for sale", gpu).Try("quarantine it first: gpuaas node quarantine %s:%d", name, devices[i].Index)
		}
		if _, err := s.Jobs.InsertTx(ctx, tx, ResetGPU{Node: n.ID, GPU: gpu}, nil); err != nil {
			return nil, fmt.Errorf("queueing the reset of %s: %w", gpu, err)
		}
		return map[string]any{"gpu": gpu, "reason": reason}, nil
	})
}
