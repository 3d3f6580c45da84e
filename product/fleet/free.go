package fleet

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/protocol"
)

// Free ends an allocation's claims by proof: a slot whose device was scrubbed is
// clean again, any other is quarantined.
func (s *Service) Free(ctx context.Context, tx pgx.Tx, id ids.Allocation, p protocol.Proof) error {
	scrubbed := p.Scrubbed
	if scrubbed == nil || len(p.Leftovers) > 0 {
		scrubbed = []string{} // something is left, so nothing is proved
	}
	if err := end(ctx, tx, id, func(b *pgx.Batch) { slots.QueueFree(b, id, scrubbed, p.Fence) }); err != nil {
		return fmt.Errorf("freeing slots of %s: %w", id, err)
	}
	return nil
}

// Quarantine withdraws an allocation's slots from sale until an operator has inspected them.
func (s *Service) Quarantine(ctx context.Context, tx pgx.Tx, id ids.Allocation, why string) error {
	if err := end(ctx, tx, id, func(b *pgx.Batch) { slots.QueueQuarantineClaimed(b, id, why) }); err != nil {
		return fmt.Errorf("quarantining slots of %s: %w", id, err)
	}
	return nil
}

// end ends an allocation's claims, and retires a draining node with the last of them.
func end(ctx context.Context, tx pgx.Tx, id ids.Allocation, queue func(*pgx.Batch)) error {
	b := &pgx.Batch{}
	b.Queue(lockNodeOf, id)
	queue(b)
	slots.QueueRetireOf(b, id)
	b.Queue(retireDrainedOf, id)
	b.Queue(markNodeOf, id)
	return tx.SendBatch(ctx, b).Close()
}

// QueueProvisioned records whether a node has provisioned an allocation. A success ends a sequence of failures.
func QueueProvisioned(b *pgx.Batch, node ids.Node, ready bool) {
	b.Queue(countProvisioned, node, ready)
}
