package manage

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// ForceRelease starts the release of an allocation again that its node has not finished, or releases one
// whose node does not report. Its slots stay out of sale until the node proves them clean.
func (s *Service) ForceRelease(ctx context.Context, ch identity.Change[allocation.Allocation], id ids.Allocation, why string) (allocation.Allocation, error) {
	if err := s.Identity.Recent(ch.Caller); err != nil {
		return allocation.Allocation{}, err
	}
	return s.change(ctx, ch, id, "allocation.force_release", func(tx pgx.Tx, a allocation.Allocation) (allocation.Allocation, any, error) {
		before := a.State
		a, reason, err := s.forceable(ctx, tx, a)
		if err == nil {
			a, err = s.Service.ForceRelease(ctx, tx, a, reason, why, ch.Caller)
		}
		return a, map[string]any{"reason": why, "release_reason": reason, "status": before}, err
	})
}

// forceable returns an allocation in a state from which a release can start, and the reason of that release.
func (s *Service) forceable(ctx context.Context, tx pgx.Tx, a allocation.Allocation) (allocation.Allocation, string, error) {
	switch a.State {
	case allocation.ReleaseFailed:
		return a, allocation.ReasonAdmin, nil
	case allocation.Releasing:
		if late := s.Clock.Now().Sub(a.StatusAt) - s.ReleaseDeadline(); late < 0 {
			return a, "", notAllowed(a).Try("wait until %s, the deadline of its release", s.Clock.Now().Add(-late).UTC().Format(time.RFC3339))
		}
		if err := s.Exhaust(ctx, tx, a, 0, "an operator forces the release"); err != nil {
			return a, "", err
		}
		a, err := s.Lock(ctx, tx, a.ID)
		return a, allocation.ReasonAdmin, err
	case allocation.Provisioning, allocation.Active:
		lost, err := s.Inventory.Silenced(ctx, tx, a.Node)
		if err == nil && !lost {
			err = notAllowed(a).Try("drain its node, which notifies the tenant of a deadline")
		}
		return a, allocation.ReasonNodeLost, err
	case allocation.Requested, allocation.Released, allocation.Failed:
	}
	return a, "", notAllowed(a)
}

func notAllowed(a allocation.Allocation) *errs.Error {
	return errs.New(errs.ForceReleaseNotAllowed, "the allocation is %s: only a release that failed or is overdue, or an allocation of a silent node, can be forced", a.State).
		With("status", a.State)
}

// change locks an allocation of any tenant in the caller's scope, changes it, and writes the audit row of its tenant.
func (s *Service) change(ctx context.Context, ch identity.Change[allocation.Allocation], id ids.Allocation, action string,
	work func(pgx.Tx, allocation.Allocation) (changed allocation.Allocation, after any, err error),
) (made allocation.Allocation, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		a, err := s.Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		var after any
		if made, after, err = work(tx, a); err != nil {
			return err
		}
		b := &pgx.Batch{}
		reply := identity.Reply{}
		if ch.Answer != nil {
			reply = ch.Answer(made)
		}
		s.Identity.QueueKey(b, ch.Key, reply)
		audit.Queue(b, audit.Entry{Tenant: a.Tenant, By: ch.Caller.Cause(), Action: action, Target: a.URN(s.Naming), After: after})
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return allocation.Allocation{}, s.Repeated(ctx, ch.Key, err)
	}
	s.Desired.Hint()
	s.Hints.Send(event.Topic)
	return made, nil
}
