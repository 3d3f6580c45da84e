package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/protocol"
)

// do makes one change of an operator's: the key first, so that a repetition waits
// for nothing; then the work, and what it is answered.
func do[T any](ctx context.Context, s *Service, ch identity.Change[T], work func(pgx.Tx) (T, error)) (T, error) {
	var made, none T
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		s.Identity.QueueKey(b, ch.Key, identity.Reply{})
		err := send(ctx, tx, b)
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
		return send(ctx, tx, b)
	})
	if err != nil {
		return none, err
	}
	return made, nil
}

func send(ctx context.Context, tx pgx.Tx, b *pgx.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, b).Close()
}

// Cordon has nothing new placed on a node, until a time or until the hold is lifted.
func (s *Service) Cordon(ctx context.Context, ch identity.Change[Node], name, reason string, until *time.Time) (Node, error) {
	if until != nil && !until.After(s.Clock.Now()) {
		return Node{}, errs.Invalid("until", "has gone by")
	}
	return s.set(ctx, ch, name, Hold{Kind: Cordon, Cause: ByOperator, Reason: reason, Deadline: until})
}

// Drain has those who stand on a node leave by the deadline, or within the grace
// that policy gives. The loop tells them, waits, and releases.
func (s *Service) Drain(ctx context.Context, ch identity.Change[Node], name, reason string, deadline *time.Time) (Node, error) {
	now := s.Clock.Now().Truncate(time.Microsecond) // as the database will say it
	switch {
	case deadline == nil:
		at := now.Add(s.Grace(name))
		deadline = &at
	case deadline.Before(now):
		return Node{}, errs.Invalid("deadline", "has gone by")
	}
	return s.set(ctx, ch, name, Hold{Kind: Drain, Cause: ByOperator, Reason: reason, Deadline: deadline})
}

func (s *Service) set(ctx context.Context, ch identity.Change[Node], name string, h Hold) (Node, error) {
	return s.turn(ctx, ch, name, string(h.Kind), func(_ pgx.Tx, n Node, b *pgx.Batch) (any, error) {
		h.Node, h.Owner = n.ID, ch.Caller.Actor()
		QueueHold(b, h)
		return map[string]any{"reason": h.Reason, "deadline": h.Deadline}, nil
	})
}

// turn changes a node's holds, with the one audit row, and answers how it stands then.
func (s *Service) turn(ctx context.Context, ch identity.Change[Node], name, action string, work func(pgx.Tx, Node, *pgx.Batch) (after any, err error)) (Node, error) {
	n, err := do(ctx, s, ch, func(tx pgx.Tx) (Node, error) {
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
		s.note(b, ch.Caller, "node."+action, "node", n.ID.UUID, after)
		if err := send(ctx, tx, b); err != nil {
			return Node{}, fmt.Errorf("%s of %s: %w", action, name, err)
		}
		return s.node(ctx, tx, name)
	})
	if err == nil {
		s.wake()
	}
	return n, err
}

// Revoke ends a node's certificates: what it says is believed no more, until it is
// enrolled anew.
func (s *Service) Revoke(ctx context.Context, ch identity.Change[Node], name, reason string) (Node, error) {
	return s.turn(ctx, ch, name, "revoke", func(tx pgx.Tx, n Node, _ *pgx.Batch) (any, error) {
		if err := s.RevokeTokens(ctx, tx, n.ID); err != nil {
			return nil, err
		}
		serials, err := s.Certificates.Revoke(ctx, tx, n.ID, reason)
		return map[string]any{"reason": reason, "serials": serials}, err
	})
}

// Word is what an operator says of a node's health, or of a GPU's.
type Word struct {
	Level  string // unknown takes it back
	Target string // GPU UUID; empty: the node
	Reason string
	Until  *time.Time
}

// OverrideHealth takes an operator's word about a node, or a GPU of it.
func (s *Service) OverrideHealth(ctx context.Context, ch identity.Change[Node], name string, w Word) (Node, error) {
	return s.turn(ctx, ch, name, "health_override", func(tx pgx.Tx, n Node, _ *pgx.Batch) (any, error) {
		after := map[string]any{"target": w.Target, "level": w.Level, "reason": w.Reason, "until": w.Until}
		o := Override{Target: w.Target, Level: protocol.Health(w.Level), Message: w.Reason, Until: w.Until, Actor: ch.Caller.Actor()}
		switch o.Level { //nolint:exhaustive // the others only speak
		case protocol.Unknown:
			return after, s.Withdraw(ctx, tx, n.ID, o.Target, o.Check)
		case protocol.Unhealthy:
			o.Classes = []protocol.Class{protocol.PreventAllocations}
		}
		return after, s.Override(ctx, tx, n.ID, o)
	})
}

// Accept has a node's hardware be what it reports now, if that is what was looked at.
func (s *Service) Accept(ctx context.Context, ch identity.Change[Node], name, fingerprint, reason string) (Node, error) {
	return s.turn(ctx, ch, name, "accept_hardware", func(tx pgx.Tx, n Node, _ *pgx.Batch) (any, error) {
		t, _, err := s.Topology(ctx, tx, n.ID)
		if err != nil {
			return nil, err
		}
		if t != nil && !strings.HasPrefix(t.Hardware().Fingerprint(), fingerprint) {
			return nil, errs.New(errs.Conflict, "%s reports other hardware now: %s", name, t.Hardware().Fingerprint()).At("fingerprint").Try("look at it again")
		}
		changed, err := s.AcceptHardware(ctx, tx, n.ID)
		return map[string]any{"fingerprint": fingerprint, "reason": reason, "changed": changed}, err
	})
}

// wake has the loop look now, and requests that wait try what has come free.
func (s *Service) wake() {
	s.market.forget()
	s.Hints.Send(desired.HintDue)
	s.Hints.Send(HintSlots)
}

func (s *Service) note(b *pgx.Batch, by identity.Caller, action, kind string, id uuid.UUID, after any) {
	audit.Queue(b, audit.Entry{
		Tenant: by.Tenant, Actor: by.Actor(), Action: action, Target: s.Naming.Name("", "", kind, id.String()).String(),
		CorrelationID: by.CorrelationID, After: after,
	})
}

// Uncordon lifts the caller's cordons and drains of a node. What others hold is
// theirs to lift, unless an admin forces it; what a file declares is the file's.
func (s *Service) Uncordon(ctx context.Context, ch identity.Change[Node], name string, force bool) (Node, error) {
	return s.turn(ctx, ch, name, "uncordon", func(_ pgx.Tx, n Node, b *pgx.Batch) (any, error) {
		mine, err := liftable(n, ch.Caller.Actor(), force)
		if err != nil {
			return nil, err
		}
		of, lifted := make([]uuid.UUID, len(mine)), make([]map[string]any, len(mine))
		for i, h := range mine {
			of[i], lifted[i] = h.ID, map[string]any{"kind": h.Kind, "owner": h.Owner, "reason": h.Reason}
		}
		QueueLift(b, n.ID, of, ch.Caller.Actor())
		return map[string]any{"lifted": lifted, "force": force}, nil
	})
}

// liftable are the holds that somebody may lift, or why none of those that stand.
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
	switch e := errs.New(errs.DrainOwnedByOther, "%s is held by %s: %s", n.Name, other.Owner, other.Reason).With("owner", other.Owner); other.Cause {
	case ByFingerprint:
		return nil, e.Try("look at the hardware, then accept it: gpuaas node accept %s", n.Name)
	case ByOperator, ByHealth, ByUpdate:
		return nil, e.Try("ask them to lift it; an admin may with force")
	default:
		return nil, e
	}
}

// Slot is what is sold of a node.
type Slot struct {
	ID     ids.Slot
	Node   ids.Node
	Host   string // the node's name
	GPU    string
	SKU    string
	Region string
	Status string
	Reason string
	Holder *uuid.UUID
}

// QuarantineSlot keeps a slot for inspection, whoever has it now.
func (s *Service) QuarantineSlot(ctx context.Context, ch identity.Change[Slot], id ids.Slot, reason string) (Slot, error) {
	return s.turnSlot(ctx, ch, id, "quarantine", map[string]any{"reason": reason}, func(_ pgx.Tx, slot Slot, b *pgx.Batch) error {
		QueueHold(b, Hold{Node: slot.Node, Slot: &id.UUID, Kind: Quarantine, Cause: ByOperator, Owner: ch.Caller.Actor(), Reason: reason})
		return nil
	})
}

// ClearSlot gives a slot that was kept back to the market, where there is proof
// that nothing of its last holder is left, and nothing else speaks against it.
func (s *Service) ClearSlot(ctx context.Context, ch identity.Change[Slot], id ids.Slot, reason string) (Slot, error) {
	return s.turnSlot(ctx, ch, id, "clear", map[string]any{"reason": reason}, func(tx pgx.Tx, slot Slot, b *pgx.Batch) error {
		holds, err := s.Holds(ctx, tx, []ids.Node{slot.Node})
		if err != nil {
			return err
		}
		of := []uuid.UUID{}
		for _, h := range holds[slot.Node] {
			switch {
			case h.Slot == nil || *h.Slot != id.UUID:
			case h.Cause != ByOperator:
				return unproved(slot, h.Reason).Try("mend it until its reports say so, or override them: gpuaas node health %s", slot.Host)
			default:
				of = append(of, h.ID)
			}
		}
		if slot.Status == "dirty" || slot.Status == "quarantined" && !onlyHeld(slot.Reason) {
			return unproved(slot, slot.Reason).Try("have it released again, until the node proves that nothing is left")
		}
		QueueLift(b, slot.Node, of, ch.Caller.Actor())
		b.Queue(clearSlot, id)
		return nil
	})
}

// onlyHeld: a slot that is kept back for this was clean, or was freed by proof.
func onlyHeld(reason string) bool {
	return reason == "" || reason == "unhealthy" || reason == "quarantined by an operator"
}

func unproved(slot Slot, why string) *errs.Error {
	return errs.New(errs.ProofMissing, "nothing proves that this slot of %s may be sold: it is %s (%s)", slot.Host, slot.Status, why).
		With("status", slot.Status).With("reason", why)
}

func (s *Service) turnSlot(ctx context.Context, ch identity.Change[Slot], id ids.Slot, action string, after any, work func(pgx.Tx, Slot, *pgx.Batch) error) (Slot, error) {
	slot, err := do(ctx, s, ch, func(tx pgx.Tx) (Slot, error) {
		slot, err := readSlot(ctx, tx, id)
		if err != nil {
			return Slot{}, err
		}
		b := &pgx.Batch{}
		if err := work(tx, slot, b); err != nil {
			return Slot{}, err
		}
		s.note(b, ch.Caller, "slot."+action, "slot", id.UUID, after)
		if err := send(ctx, tx, b); err != nil {
			return Slot{}, fmt.Errorf("%s of slot %s: %w", action, id, err)
		}
		return readSlot(ctx, tx, id)
	})
	if err == nil {
		s.wake()
	}
	return slot, err
}

func readSlot(ctx context.Context, tx pgx.Tx, id ids.Slot) (Slot, error) {
	rows, err := tx.Query(ctx, selectSlot, id)
	if err != nil {
		return Slot{}, fmt.Errorf("reading slot %s: %w", id, err)
	}
	slot, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Slot])
	if errors.Is(err, pgx.ErrNoRows) {
		return Slot{}, errs.New(errs.NotFound, "no such slot")
	}
	return slot, err
}
