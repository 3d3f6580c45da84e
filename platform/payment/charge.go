package payment

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// A charge that the provider does not have ends after ChargeLife. The provider is called in the first half of it,
// so that no call is in progress when a search decides that no charge exists.
const ChargeLife = 10 * time.Minute

// isCharge reports whether the session is the charge of a stored payment method.
func (s Session) isCharge() bool { return s.Mandate != ids.Mandate{} }

func (s Session) mode() string {
	if s.isCharge() {
		return ModeCharge
	}
	return ModePayment
}

func (s Session) charge(method string) NewCharge {
	return NewCharge{
		Session: s.ID, Tenant: s.Tenant, Month: s.Month, Number: s.Number, Customer: s.Customer, Method: method, Amount: s.Amount, Currency: s.Currency,
		CreatedAt: s.CreatedAt, ProviderID: s.ProviderID,
	}
}

// query reads the provider's report of a session.
func (s *Service) query(ctx context.Context, session Session) (Checkout, error) {
	if session.isCharge() {
		return s.Provider.Charge(ctx, session.charge(""))
	}
	return s.Provider.Checkout(ctx, session.ProviderID)
}

// OpenCharge reads the charge of a tenant that has no result. found is false if there is none.
func (s *Service) OpenCharge(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (session Session, found bool, err error) {
	session, err = querySession(ctx, q, selectOpenCharge, tenant)
	if errs.CodeOf(err) == errs.NotFound {
		return Session{}, false, nil
	}
	return session, err == nil, err
}

// SendCharge calls the provider for a reserved charge, and records a decline. It credits nothing: the event
// of the provider does. allowed decides immediately before the call. Late charges are searched for, and
// end if the provider has none.
func (s *Service) SendCharge(ctx context.Context, reserved Session, method string, allowed func(context.Context) (bool, error)) error {
	now := s.Clock.Now()
	switch {
	case now.After(reserved.ExpiresAt):
		_, err := s.recheck(ctx, reserved)
		return err
	case reserved.ProviderID != "" || reserved.State != Initiated || now.After(reserved.CreatedAt.Add(ChargeLife/2)):
		return nil
	}
	if ok, err := allowed(ctx); err != nil || !ok {
		return err
	}
	c, err := s.Provider.Charge(ctx, reserved.charge(method))
	if err != nil {
		return errors.Join(s.Failed(ctx, "charging "+reserved.ID.String(), err), s.Mandates.Missed(ctx, reserved, err))
	}
	failpoint.Hit("topup.charge.after_provider")
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		locked, err := querySession(ctx, tx, lockSession, reserved.ID)
		if err != nil {
			return err
		}
		if c.Paid == PaidNever {
			_, err = s.move(ctx, tx, locked, Claim{Checkout: c, Live: reserved.Livemode})
			return err
		}
		_, err = tx.Exec(ctx, nameCharge, reserved.ID, c.ID)
		failpoint.Hit("topup.charge.before_commit")
		return wrap("recording a charge", err)
	})
	if err == nil {
		failpoint.Hit("topup.charge.after_commit")
	}
	return err
}

// reportWithin is the time after which a charge without a report is left to an operator. The provider repeats its
// webhooks and the sweep its queries for a day, and the idempotency key of the charge ends with it.
const reportWithin = 24 * time.Hour

// charged records the end of a charge in its mandate.
func (s *Service) charged(ctx context.Context, tx pgx.Tx, session Session, to State, failure string) error {
	if !session.isCharge() {
		return nil
	}
	return wrap("recording a charge in its mandate", s.Mandates.Charged(ctx, tx, session, to, failure))
}

const (
	selectOpenCharge = `SELECT ` + sessionColumns + ` FROM payment_sessions
		WHERE org_id = $1 AND mandate_id IS NOT NULL AND status IN ('initiated', 'checkout_completed')`
	nameCharge = `UPDATE payment_sessions SET provider_session = $2, version = version + 1 WHERE id = $1 AND provider_session IS NULL`
)
