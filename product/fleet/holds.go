package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/slots"
)

// HoldKind is the effect of a hold.
type HoldKind string

// The kinds of holds.
const (
	Cordon     HoldKind = "cordon"     // nothing new is placed on the node
	Drain      HoldKind = "drain"      // and its allocations are evicted at the deadline
	Quarantine HoldKind = "quarantine" // one slot is out of service for inspection
)

// Cause is the origin of a hold: an operator, or an observation of the platform.
type Cause string

// The causes of holds.
const (
	ByOperator    Cause = "operator"
	ByFingerprint Cause = "fingerprint"
	ByHealth      Cause = "health"
	ByUpdate      Cause = "update"
)

// Hold is a block on the sale of a node or a slot. Several may be active at once. Only the actor who set
// a hold can lift it.
type Hold struct {
	ID       uuid.UUID
	Node     ids.Node
	Slot     *uuid.UUID // nil: the whole node
	Kind     HoldKind
	Cause    Cause
	Owner    string // the actor's name in audit rows, or system
	Reason   string
	Deadline *time.Time // of a drain: tenants leave by then; of another: when it ends by itself
	Since    time.Time
}

// QueueHold sets a hold in the caller's transaction. An existing hold of the same owner, kind and cause
// gets the new reason and deadline. A claim that commits later cannot place anything on the node.
func QueueHold(b *pgx.Batch, h Hold) {
	// The node is locked before its slots, as everywhere, so that no slot is added to it meanwhile.
	b.Queue(lockHeld, h.Node)
	b.Queue(putHold, uuid.Must(uuid.NewV7()), h.Node, h.Slot, h.Kind, h.Cause, h.Owner, h.Reason, h.Deadline)
	if h.Slot != nil {
		slots.QueueQuarantineHeld(b, *h.Slot)
	}
	QueueFollowHolds(b, h.Node, string(h.Kind)+" set")
	if h.Kind == Drain {
		b.Queue(markLeaving, h.Node, "node drains")
	}
}

// queueLift lifts the holds with these ids, in the caller's transaction.
func queueLift(b *pgx.Batch, node ids.Node, of []uuid.UUID, by string) {
	b.Queue(lockHeld, node)
	b.Queue(liftHolds, node, of, by)
	QueueFollowHolds(b, node, "hold removed")
	b.Queue(markLeaving, node, "hold removed")
}

// QueueFollowHolds updates the slots of a node according to its holds, and makes the node due. A
// separate statement locks the slots. The next statement therefore sees the holds that the previous
// owner of the lock has committed.
func QueueFollowHolds(b *pgx.Batch, node ids.Node, why string) {
	slots.QueueFollowHolds(b, node)
	b.Queue(markNode, node, why)
}

// QueueRetirement stores when a node will leave the fleet.
func QueueRetirement(b *pgx.Batch, id ids.Node, at time.Time, reason string) {
	b.Queue(setRetirement, id, at, reason)
}

// Holds reads the active holds of these nodes and their slots, oldest first.
func (s *Service) Holds(ctx context.Context, q pg.Queryer, nodes []ids.Node) (map[ids.Node][]Hold, error) {
	rows, err := q.Query(ctx, selectHolds, nodes)
	if err != nil {
		return nil, fmt.Errorf("reading holds: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Hold])
	if err != nil {
		return nil, fmt.Errorf("reading holds: %w", err)
	}
	all := map[ids.Node][]Hold{}
	for _, h := range list {
		all[h.Node] = append(all[h.Node], h)
	}
	return all, nil
}

// SystemHold is a hold that the platform itself sets: on a node, or on the slot of a GPU.
type SystemHold struct {
	ID     uuid.UUID `json:"id"`
	GPU    string    `json:"gpu"` // of the slot; empty: the whole node
	Cause  string    `json:"cause"`
	Reason string    `json:"reason"`
}

// ownerSystem is the owner of holds that the platform sets.
const ownerSystem = "system"

// PutSystemHolds sets holds of the platform and returns the slot of each hold by the id of the hold.
// The slot of a hold on the whole node is nil.
func PutSystemHolds(ctx context.Context, tx pgx.Tx, node ids.Node, holds []SystemHold) (map[uuid.UUID]*uuid.UUID, error) {
	rows, err := tx.Query(ctx, putOwn, node, holds)
	if err != nil {
		return nil, fmt.Errorf("holding %s: %w", node, err)
	}
	made := map[uuid.UUID]*uuid.UUID{}
	var hold uuid.UUID
	var slot *uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&hold, &slot}, func() error {
		made[hold] = slot
		return nil
	}); err != nil {
		return nil, fmt.Errorf("holding %s: %w", node, err)
	}
	return made, nil
}

// QueueLiftSystem ends holds of the platform, those with these ids.
func QueueLiftSystem(b *pgx.Batch, node ids.Node, of []uuid.UUID) {
	b.Queue(liftOwn, of, ownerSystem)
	QueueFollowHolds(b, node, "hold removed")
}
