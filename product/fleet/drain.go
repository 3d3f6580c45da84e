package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/product/slots"
)

// Retire removes a node from the fleet. A node with allocations drains first: it receives no new ones,
// none is released by force, and the node retires with the last proof. A repeated call changes nothing.
func (s *Service) Retire(ctx context.Context, tx pgx.Tx, id ids.Node) error {
	b := &pgx.Batch{}
	b.Queue(drainNode, id)
	slots.QueueRetire(b, id)
	b.Queue(retireDrained, id)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("retiring node %s: %w", id, err)
	}
	return nil
}

// The facts about a drain.
const (
	SubjectNodeDraining       = "fleet.node_draining"
	SubjectNodeDrained        = "fleet.node_drained"
	SubjectNodeDrainCancelled = "fleet.node_drain_cancelled"
)

// DrainEvent is the payload of each of them.
type DrainEvent struct {
	Node   string     `json:"node_id"`
	Name   string     `json:"name"`
	Owner  string     `json:"owner"` // empty once no drain is in effect
	Reason string     `json:"reason"`
	Until  *time.Time `json:"deadline_at,omitempty"` // by when tenants leave
}

// DrainStarted writes down that a node is to be empty.
func (s *Service) DrainStarted(ctx context.Context, tx pgx.Tx, id ids.Node) error {
	return s.step(ctx, tx, id, beginDrain, SubjectNodeDraining)
}

// Drained records that a draining node has no allocations any more.
func (s *Service) Drained(ctx context.Context, tx pgx.Tx, id ids.Node) error {
	return s.step(ctx, tx, id, endDrain, SubjectNodeDrained)
}

// DrainCancelled returns a node to service whose drain was cancelled.
func (s *Service) DrainCancelled(ctx context.Context, tx pgx.Tx, id ids.Node) error {
	return s.step(ctx, tx, id, callDrainOff, SubjectNodeDrainCancelled)
}

// step applies one step of a drain if it is still due, and emits its event.
func (s *Service) step(ctx context.Context, tx pgx.Tx, id ids.Node, sql, subject string) error {
	tag, err := tx.Exec(ctx, sql, id)
	if err != nil || tag.RowsAffected() == 0 {
		return wrap(err, subject, id)
	}
	f, version := DrainEvent{Node: id.String()}, int64(0)
	var region string
	if err := tx.QueryRow(ctx, selectNode, id).Scan(&f.Name, &version, &region, &f.Owner, &f.Reason, &f.Until); err != nil {
		return wrap(err, subject, id)
	}
	b := &pgx.Batch{}
	event.Queue(b, event.Draft{
		Stream: event.StreamFleet, Subject: subject, Aggregate: "node:" + id.String(), Sequence: version, URN: s.Urn("node", id.String()), Payload: f,
	})
	b.Queue(markNode, id, subject)
	return wrap(tx.SendBatch(ctx, b).Close(), subject, id)
}

func wrap(err error, subject string, id ids.Node) error {
	if err != nil {
		return fmt.Errorf("recording %s of %s: %w", subject, id, err)
	}
	return nil
}

// EndExpiredHolds lifts the expired holds of a node.
func (s *Service) EndExpiredHolds(ctx context.Context, tx pgx.Tx, id ids.Node) error {
	b := &pgx.Batch{}
	b.Queue(lockHeld, id)
	b.Queue(lapseHolds, id)
	QueueFollowHolds(b, id, "hold expired")
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("ending holds of %s: %w", id, err)
	}
	return nil
}

// Eviction is the deadline by which an allocation must leave a draining node.
type Eviction struct {
	At      time.Time
	By, Why string
}

// Eviction reports, in tx, whether an allocation is on a draining node.
func (s *Service) Eviction(ctx context.Context, tx pgx.Tx, id ids.Allocation) (l Eviction, leaves bool, err error) {
	err = tx.QueryRow(ctx, selectLeave, id).Scan(&l.At, &l.By, &l.Why)
	if errors.Is(err, pgx.ErrNoRows) {
		return Eviction{}, false, nil
	}
	if err != nil {
		return Eviction{}, false, fmt.Errorf("reading by when %s leaves: %w", id, err)
	}
	return l, true, nil
}
