package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// ActorProvider is the actor of money that moves by decision of the provider or of a bank.
const ActorProvider = "system:payment_provider"

const reasonExternal = "refunded on the pages of the payment provider"

// credited is a payment that was credited here.
type credited struct {
	tenant    ids.Tenant
	principal uuid.UUID
	currency  string
	left      money.Minor // not refunded and not disputed
	busy      bool        // a refund of it is in progress
}

// lockCredited locks a payment. found is false if the payment belongs to no session of ours. If it
// belongs to one and is not credited yet, its event is late: the error makes the worker repeat the job.
func lockCredited(ctx context.Context, tx pgx.Tx, payment, session string) (c credited, found bool, err error) {
	err = tx.QueryRow(ctx, lockPayment, payment).Scan(&c.tenant, &c.principal, &c.currency, &c.left, &c.busy)
	if !errors.Is(err, pgx.ErrNoRows) {
		return c, true, wrap("locking payment "+payment, err)
	}
	id, err := uuid.Parse(session)
	if err != nil {
		return c, false, nil //nolint:nilerr // another product uses the same account
	}
	s, err := querySession(ctx, tx, selectAnySession, id)
	switch {
	case errs.CodeOf(err) == errs.NotFound, err == nil && s.State != Initiated && s.State != CheckoutCompleted:
		return c, false, nil
	case err != nil:
		return c, false, err
	}
	return c, false, errs.New(errs.Conflict, "payment %s is not credited yet", payment)
}

// withdrawable rejects a withdrawal of more than the payment has left. If a refund of ours is in
// progress, the provider will reject it, and the amount returns to the payment: the job is repeated.
func (c credited) withdrawable(payment string, amount money.Minor) (Outcome, bool, error) {
	switch {
	case amount <= c.left:
		return Outcome{}, true, nil
	case c.busy:
		return Outcome{}, false, inProgress(payment)
	}
	return Outcome{Result: ResultDisagrees, Reason: "amount", Attention: true}, false, nil
}

func inProgress(payment string) error {
	return errs.New(errs.Conflict, "a refund of payment %s is in progress", payment)
}

// recordExternal records a refund that was made on the pages of the provider. The money has left the
// account of the platform, so it leaves the balance as unused credit, whatever the balance is.
func (s *Service) recordExternal(ctx context.Context, tx pgx.Tx, said Refunded) (Outcome, error) {
	c, found, err := lockCredited(ctx, tx, said.Payment, said.Session)
	switch {
	case err != nil:
		return Outcome{}, err
	case !found:
		return Outcome{Result: ResultNotOurs}, nil
	case said.Stage == RefundFailed:
		return Outcome{Result: resultRecorded, Reason: string(Failed)}, nil
	case said.ID == "" || said.Amount <= 0:
		return Outcome{Result: ResultDisagrees, Reason: "refund", Attention: true}, nil
	}
	if o, ok, err := c.withdrawable(said.Payment, said.Amount); !ok {
		return o, err
	}
	now := s.now()
	r := Refund{
		ID: ids.New[ids.Refund](), Tenant: c.tenant, User: ids.From[ids.User](c.principal), RequestedBy: ActorProvider, Kind: Unspent, Route: ToCard,
		Payment: said.Payment, Amount: said.Amount, Currency: c.currency, Reason: reasonExternal, State: Requested, ProviderID: said.ID,
		Transfer: uuid.Must(uuid.NewV7()), CreatedAt: now, Version: 1,
	}
	if said.Stage == RefundSucceeded {
		r.State, r.SettledAt = Succeeded, &now
	}
	b := &pgx.Batch{}
	b.Queue(withdrawPayment, r.Payment, r.Amount)
	s.queueRefund(b, r)
	audit.Queue(b, audit.Entry{
		Tenant: r.Tenant, By: audit.By{Actor: ActorProvider}, Action: "payment.refund", Target: r.URN(s.Naming),
		After: map[string]any{"kind": r.Kind, "route": r.Route, "amount_minor": r.Amount, "currency": r.Currency, "reason": r.Reason, "provider_refund": said.ID},
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return Outcome{}, fmt.Errorf("recording refund %s of the provider: %w", said.ID, err)
	}
	return Outcome{Result: resultElsewhere, Reason: said.Payment}, s.balanceMoved(ctx, tx, r.Tenant)
}

// queueRefund inserts a refund with its transfer, and its event if it has succeeded.
func (s *Service) queueRefund(b *pgx.Batch, r Refund) {
	b.Queue(insertRefund, r.ID, r.Tenant, r.User, r.RequestedBy, r.Kind, r.Route, textOrNull(r.Payment), r.Amount, r.Currency, r.Reason,
		r.CorrelationID, r.State, r.Transfer, r.CreatedAt, r.SettledAt, textOrNull(r.ProviderID))
	ledger.QueueTransfer(b, r.transfer(), nil)
	if r.State == Succeeded {
		s.queueRefunded(b, r)
	}
}

// now returns the time in the precision of the database.
func (s *Service) now() time.Time { return s.Clock.Now().Truncate(time.Microsecond) }
