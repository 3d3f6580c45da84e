package slots

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// The functions of this file change slots in the caller's transaction, together with the node.

// QueueAdd adds a slot for each GPU of the node that has none.
func QueueAdd(b *pgx.Batch, node ids.Node) { b.Queue(putSlots, node) }

// QueueResell gives the slots of a node its SKU and region, and makes the slots of a node that was
// retired available again.
func QueueResell(b *pgx.Batch, node ids.Node, sku, region string) {
	b.Queue(resellSlots, node, sku, region)
}

// QueueFollowHolds makes the slots of a node unavailable while an operator hold of the node is active. A separate
// statement locks the slots: the next statement sees the holds of transactions that had the lock before.
func QueueFollowHolds(b *pgx.Batch, node ids.Node) {
	b.Queue(lockSlots, node)
	b.Queue(refreshHeld, node)
}

// QueueFollowHealth quarantines the free slots of a node according to its holds and to GPUs in foreign
// use, and makes slots available again that have neither. With a nil foreign, the last report stays in
// effect.
func QueueFollowHealth(b *pgx.Batch, node ids.Node, foreign []string) {
	b.Queue(quarantineSlots, node, foreign)
}

// QueueQuarantineHeld quarantines a free slot that an operator blocks.
func QueueQuarantineHeld(b *pgx.Batch, slot uuid.UUID) { b.Queue(quarantineHeld, slot) }

// QueueQuarantineClaimed quarantines the slots of an allocation.
func QueueQuarantineClaimed(b *pgx.Batch, id ids.Allocation, reason string) {
	b.Queue(quarantineClaimed, id, reason)
}

// QueueClear makes a quarantined slot available that nothing blocks.
func QueueClear(b *pgx.Batch, slot ids.Slot) { b.Queue(clearSlot, slot) }

// QueueFree ends the claims of an allocation by a proof. A slot whose GPU was scrubbed becomes clean,
// and any other is quarantined.
func QueueFree(b *pgx.Batch, id ids.Allocation, scrubbed []string, fence int64) {
	b.Queue(freeSlots, id, scrubbed, fence)
}

// QueueRetire withdraws the clean slots of a retiring node from sale.
func QueueRetire(b *pgx.Batch, node ids.Node) { b.Queue(retireSlots, node) }

// QueueRetireOf does the same for the node of an allocation.
func QueueRetireOf(b *pgx.Batch, id ids.Allocation) { b.Queue(retireSlotsOf, id) }
