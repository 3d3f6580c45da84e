package payment

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// SessionOf reads one of any tenant, for the platform.
func (s *Service) SessionOf(ctx context.Context, id ids.PaymentSession) (Session, error) {
	return querySession(ctx, s.DB, selectAnySession, id)
}

// Reconcile queries the provider now, and applies the response as it would an event. A response that
// contradicts the session changes nothing.
func (s *Service) Reconcile(ctx context.Context, ch identity.Change[Session], id ids.PaymentSession) (Session, error) {
	if err := s.on(); err != nil {
		return Session{}, err
	}
	session, err := s.SessionOf(ctx, id)
	if err != nil {
		return Session{}, err
	}
	if session.ProviderID == "" && !session.isCharge() { // a charge can be searched
		return Session{}, noAnswer()
	}
	c, err := s.query(ctx, session)
	if errors.Is(err, ErrUnknown) && session.ProviderID == "" && s.Clock.Now().After(session.ExpiresAt) {
		c, err = Checkout{Stage: StageExpired, Livemode: session.Livemode}, nil // a charge that was never made
	}
	if err != nil {
		return Session{}, s.Failed(ctx, "asking about payment session "+id.String(), err)
	}
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		locked, err := querySession(ctx, tx, lockSession, id)
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
		// The response is known only now. A repeated request waits for the lock of the session and then
		// finds the key.
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
