package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/slots"
)

// inChange makes one change of an operator's: the key first, so that a repetition waits
// for nothing; then the work, and what it is answered.
func inChange[T any](ctx context.Context, s *Service, ch identity.Change[T], work func(pgx.Tx) (T, error)) (T, error) {
	var made, none T
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		s.Identity.QueueKey(b, ch.Key, identity.Reply{})
		err := sendBatch(ctx, tx, b)
		if err == nil {
			made, err = work(tx)
		}
		if err != nil {
			return err
		}
		b = &pgx.Batch{}
		if ch.Answer != nil {
			s.Identity.QueueReply(b, ch.Key, ch.Answer(made))
		}
		return sendBatch(ctx, tx, b)
	})
	if err != nil {
		return none, err
	}
	return made, nil
}

func sendBatch(ctx context.Context, tx pgx.Tx, b *pgx.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, b).Close()
}

// Cordon stops new placements on a node, until a time or until the hold is lifted.
func (s *Service) Cordon(ctx context.Context, ch identity.Change[Node], name, reason string, until *time.Time) (Node, error) {
	if until != nil && !until.After(s.Clock.Now()) {
		return Node{}, errs.Invalid("until", "is in the past")
	}
	return s.setHold(ctx, ch, name, Hold{Kind: Cordon, Cause: ByOperator, Reason: reason, Deadline: until})
}

// Drain schedules the eviction of all allocations on a node at the deadline, or after the grace time of
// the policy. The control loop notifies the tenants, waits, and releases.
func (s *Service) Drain(ctx context.Context, ch identity.Change[Node], name, reason string, deadline *time.Time) (Node, error) {
	now := s.Clock.Now().Truncate(time.Microsecond) // in the precision of the database
	switch {
	case deadline == nil:
		at := now.Add(s.Grace(name))
		deadline = &at
	case deadline.Before(now):
		return Node{}, errs.Invalid("deadline", "is in the past")
	}
	return s.setHold(ctx, ch, name, Hold{Kind: Drain, Cause: ByOperator, Reason: reason, Deadline: deadline})
}

func (s *Service) setHold(ctx context.Context, ch identity.Change[Node], name string, h Hold) (Node, error) {
	return s.ChangeNode(ctx, ch, name, string(h.Kind), func(_ pgx.Tx, n Node, b *pgx.Batch) (any, error) {
		h.Node, h.Owner = n.ID, ch.Caller.Actor()
		QueueHold(b, h)
		return map[string]any{"reason": h.Reason, "deadline": h.Deadline}, nil
	})
}

// ChangeNode changes a node's holds, with one audit row, and returns the node afterwards.
func (s *Service) ChangeNode(ctx context.Context, ch identity.Change[Node], name, action string, work func(pgx.Tx, Node, *pgx.Batch) (after any, err error)) (Node, error) {
	n, err := inChange(ctx, s, ch, func(tx pgx.Tx) (Node, error) {
		n, err := s.node(ctx, tx, name)
		if err == nil && n.Lifecycle == "retired" {
			err = errs.New(errs.NotFound, "no node is named %s", name)
		}
		if err != nil {
			return Node{}, err
		}
		b := &pgx.Batch{}
		after, err := work(tx, n, b)
		if err != nil {
			return Node{}, err
		}
		s.queueAudit(b, ch.Caller, "node."+action, "node", n.ID.UUID, after)
		if err := sendBatch(ctx, tx, b); err != nil {
			return Node{}, fmt.Errorf("%s of %s: %w", action, name, err)
		}
		return s.node(ctx, tx, name)
	})
	if err == nil {
		s.Wake()
	}
	return n, err
}

// Revoke revokes a node's certificates. Its reports are rejected until it is enrolled again.
func (s *Service) Revoke(ctx context.Context, ch identity.Change[Node], name, reason string) (Node, error) {
	return s.ChangeNode(ctx, ch, name, "revoke", func(tx pgx.Tx, n Node, _ *pgx.Batch) (any, error) {
		if err := s.RevokeTokens(ctx, tx, n.ID); err != nil {
			return nil, err
		}
		serials, err := s.Certificates.Revoke(ctx, tx, n.ID, reason)
		return map[string]any{"reason": reason, "serials": serials}, err
	})
}

// queueAudit writes the row to the audit of the platform: a node belongs to no tenant, and the operator's own
// tenant must not read about it.
func (s *Service) queueAudit(b *pgx.Batch, by identity.Caller, action, kind string, id uuid.UUID, after any) {
	audit.Queue(b, audit.Entry{
		By: by.Cause(), Action: action, Target: s.Naming.Name("", "", kind, id.String()).String(),
		After: after,
	})
}

// Uncordon lifts the caller's cordons and drains of a node. Holds of other owners stay, unless an admin
// forces it. A cordon in a file can only be changed in the file.
func (s *Service) Uncordon(ctx context.Context, ch identity.Change[Node], name string, force bool) (Node, error) {
	return s.ChangeNode(ctx, ch, name, "uncordon", func(_ pgx.Tx, n Node, b *pgx.Batch) (any, error) {
		mine, err := liftable(n, ch.Caller.Actor(), force)
		if err != nil {
			return nil, err
		}
		of, lifted := make([]uuid.UUID, len(mine)), make([]map[string]any, len(mine))
		for i, h := range mine {
			of[i], lifted[i] = h.ID, map[string]any{"kind": h.Kind, "owner": h.Owner, "reason": h.Reason}
		}
		queueLift(b, n.ID, of, ch.Caller.Actor())
		return map[string]any{"lifted": lifted, "force": force}, nil
	})
}

// liftable returns the operator holds that this caller may lift, or an error that explains why it may lift none
// of the active ones.
func liftable(n Node, by string, force bool) (mine []Hold, err error) {
	var other *Hold
	for _, h := range n.Holds {
		switch {
		case h.Kind == Quarantine:
		case h.Owner == by, force && h.Cause != ByFingerprint:
			mine = append(mine, h)
		case other == nil:
			other = &h
		}
	}
	if len(mine) > 0 || other == nil {
		return mine, nil
	}
	switch e := errs.New(errs.DrainOwnedByOther, "%s has a hold of %s: %s", n.Name, other.Owner, other.Reason).With("owner", other.Owner); other.Cause {
	case ByFingerprint:
		return nil, e.Try("check the hardware, then accept it: gpuaas node accept %s", n.Name)
	case ByOperator, ByHealth, ByUpdate:
		return nil, e.Try("request the removal from the owner of the hold; an admin can use force")
	default:
		return nil, e
	}
}

// QuarantineSlot quarantines a slot for inspection. A claim on the slot stays until its release.
func (s *Service) QuarantineSlot(ctx context.Context, ch identity.Change[slots.Slot], id ids.Slot, reason string) (slots.Slot, error) {
	return s.changeSlot(ctx, ch, id, "quarantine", map[string]any{"reason": reason}, func(_ pgx.Tx, slot slots.Slot, b *pgx.Batch) error {
		QueueHold(b, Hold{Node: slot.Node, Slot: &id.UUID, Kind: Quarantine, Cause: ByOperator, Owner: ch.Caller.Actor(), Reason: reason})
		return nil
	})
}

// ClearSlot returns a quarantined slot to sale, if a proof shows that nothing of the last tenant is
// left, and no hold is active.
func (s *Service) ClearSlot(ctx context.Context, ch identity.Change[slots.Slot], id ids.Slot, reason string) (slots.Slot, error) {
	return s.changeSlot(ctx, ch, id, "clear", map[string]any{"reason": reason}, func(tx pgx.Tx, slot slots.Slot, b *pgx.Batch) error {
		holds, err := s.Holds(ctx, tx, []ids.Node{slot.Node})
		if err != nil {
			return err
		}
		of := []uuid.UUID{}
		for _, h := range holds[slot.Node] {
			switch {
			case h.Slot == nil || *h.Slot != id.UUID:
			case h.Cause != ByOperator:
				return unproved(slot, h.Reason).Try("repair the GPU until the node reports it healthy, or override its health: gpuaas node health %s", slot.Host)
			default:
				of = append(of, h.ID)
			}
		}
		if slot.Status == "dirty" || slot.Status == "quarantined" && !slots.OnlyHeld(slot.Reason) {
			return unproved(slot, slot.Reason).Try("release the released again, until the node proves that nothing is left")
		}
		queueLift(b, slot.Node, of, ch.Caller.Actor())
		slots.QueueClear(b, id)
		return nil
	})
}

func unproved(slot slots.Slot, why string) *errs.Error {
	return errs.New(errs.ProofMissing, "no proof that the slot of %s is clean: it is %s (%s)", slot.Host, slot.Status, why).
		With("status", slot.Status).With("reason", why)
}

// changeSlot changes a slot with its audit row in one transaction, and notifies the control loop
// after the commit. A hint before the commit could be processed before the change is visible. complete adds
// to the slot what its row does not contain.
func (s *Service) changeSlot(ctx context.Context, ch identity.Change[slots.Slot], id ids.Slot, action string, after any,
	work func(pgx.Tx, slots.Slot, *pgx.Batch) error, complete ...func(*slots.Slot),
) (slots.Slot, error) {
	slot, err := inChange(ctx, s, ch, func(tx pgx.Tx) (slots.Slot, error) {
		slot, err := slots.ReadSlot(ctx, tx, id)
		if err != nil {
			return slots.Slot{}, err
		}
		b := &pgx.Batch{}
		if err := work(tx, slot, b); err != nil {
			return slots.Slot{}, err
		}
		s.queueAudit(b, ch.Caller, "slot."+action, "slot", id.UUID, after)
		if err := sendBatch(ctx, tx, b); err != nil {
			return slots.Slot{}, fmt.Errorf("%s of slot %s: %w", action, id, err)
		}
		slot, err = slots.ReadSlot(ctx, tx, id)
		for _, add := range complete {
			add(&slot)
		}
		return slot, err
	})
	if err == nil {
		s.Wake()
	}
	return slot, err
}
