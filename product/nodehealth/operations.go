package nodehealth

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/protocol"
)

// HealthOverride is a health value that an operator sets for a node or a GPU.
type HealthOverride struct {
	Level  string // unknown removes the override
	Target string // GPU UUID; empty: the node
	Reason string
	Until  *time.Time
}

// OverrideHealth sets or removes an operator's health override for a node or one of its GPUs.
func (s *Service) OverrideHealth(ctx context.Context, ch identity.Change[fleet.Node], name string, w HealthOverride) (fleet.Node, error) {
	return s.ChangeNode(ctx, ch, name, "health_override", func(tx pgx.Tx, n fleet.Node, _ *pgx.Batch) (any, error) {
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

// Accept accepts a node's reported hardware, if it is still the hardware that the operator has
// inspected.
func (s *Service) Accept(ctx context.Context, ch identity.Change[fleet.Node], name, fingerprint, reason string) (fleet.Node, error) {
	return s.ChangeNode(ctx, ch, name, "accept_hardware", func(tx pgx.Tx, n fleet.Node, _ *pgx.Batch) (any, error) {
		t, _, err := s.Topology(ctx, tx, n.ID)
		if err != nil {
			return nil, err
		}
		if t != nil && !strings.HasPrefix(t.Hardware().Fingerprint(), fingerprint) {
			return nil, errs.New(errs.Conflict, "node %s reports other hardware now: %s", name, t.Hardware().Fingerprint()).At("fingerprint").Try("read the node again")
		}
		changed, err := s.AcceptHardware(ctx, tx, n.ID)
		return map[string]any{"fingerprint": fingerprint, "reason": reason, "changed": changed}, err
	})
}

// ClearOpenBreaker clears the open trip of the breaker for an operator. The platform then quarantines by itself
// again, and counts from zero.
func (s *Service) ClearOpenBreaker(ctx context.Context, ch identity.Change[Trip], reason string) (trip Trip, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		cleared, err := s.ClearBreaker(ctx, tx, ch.Caller.Actor())
		if err == nil && !cleared {
			err = errs.New(errs.Conflict, "the breaker is not open")
		}
		if err != nil {
			return err
		}
		if trip, _, err = readTrip(ctx, tx); err != nil {
			return err
		}
		b, reply := &pgx.Batch{}, identity.Reply{}
		if ch.Answer != nil {
			reply = ch.Answer(trip)
		}
		s.Identity.QueueKey(b, ch.Key, reply)
		audit.Queue(b, audit.Entry{
			By: ch.Caller.Cause(), Action: "breaker.clear", Target: s.Urn("breaker", trip.ID.String()),
			After: map[string]any{"reason": reason, "held": trip.Held, "allowed": trip.Allowed, "rejected_nodes": trip.RejectedHolds},
		})
		return tx.SendBatch(ctx, b).Close()
	})
	if err == nil {
		s.Wake()
	}
	return trip, err
}
