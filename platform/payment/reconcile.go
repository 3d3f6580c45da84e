package payment

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// SessionOf reads one of any tenant, for the platform.
func (s *Service) SessionOf(ctx context.Context, id ids.PaymentSession) (Session, error) {
	return one(ctx, s.DB, selectAnySession, id)
}

// Reconcile asks the provider now, and does what follows from its answer, as it
// would from an event. What the answer contradicts stays as it is.
func (s *Service) Reconcile(ctx context.Context, ch identity.Change[Session], id ids.PaymentSession) (Session, error) {
	if err := s.on(); err != nil {
		return Session{}, err
	}
	session, err := s.SessionOf(ctx, id)
	if err != nil {
		return Session{}, err
	}
	if session.ProviderID == "" {
		return Session{}, noAnswer()
	}
	c, err := s.Provider.Checkout(ctx, session.ProviderID)
	if err != nil {
		return Session{}, s.failed(ctx, "asking about payment session "+id.String(), err)
	}
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		locked, err := one(ctx, tx, lockSession, id)
		if err != nil {
			return err
		}
		was := locked.State
		o, err := s.move(ctx, tx, locked, Claim{Checkout: c, Live: c.Livemode})
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(checkSession, id)
		b.Queue(selectAnySession, id).Query(func(rows pgx.Rows) (err error) {
			session, err = pgx.CollectExactlyOneRow(rows, scanSession)
			return err
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("reading payment session %s: %w", id, err)
		}
		b = &pgx.Batch{}
		// Only now is it known what is answered. Whoever repeats the request waits
		// for the session, and finds the key.
		s.Identity.QueueKey(b, ch.Key, answer(ch, session))
		s.note(b, ch.Caller, "payment.reconcile", session.Tenant, session.URN(s.Naming),
			map[string]any{"was": was, "is": session.State, "result": o.Result, "reason": o.Reason})
		return tx.SendBatch(ctx, b).Close()
	})
	if err == nil {
		s.Hints.Send(event.Topic)
	}
	return session, err
}
