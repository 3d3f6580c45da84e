package payment

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// Outcome is the result of an event.
type Outcome struct {
	Type string
	// Result is one of a few codes: credited, failed_reconcile, ignored …
	Result string
	Reason string
	// Attention marks a result that an operator must check: money has moved, or has not, in a way that
	// no request here explains.
	Attention bool
}

// Results of an event other than the states of a session.
const (
	ResultNotOurs   = "not_ours"  // about nothing that was begun here
	resultIgnored   = "ignored"   // of a type without an effect on money
	ResultUnchanged = "unchanged" // known, late or overtaken
	resultRecorded  = "settled"   // of a refund
	ResultDisagrees = "disagrees" // about a credited payment, with other data
	resultElsewhere = "refunded_elsewhere"
	resultDisputed  = "disputed" // with the stage of the dispute as the reason
)

// Gather reads a stored event. It queries the provider about the object if the event has another API
// version, or is about a dispute, a stored payment method or a refund that was not requested here. A
// worker calls it outside its transaction.
func (s *Service) Gather(ctx context.Context, id string) (Event, error) {
	var e Event
	err := s.DB.QueryRow(ctx, selectEvent, id).Scan(&e.ID, &e.Type, &e.APIVersion, &e.Account, &e.Livemode, &e.Object, &e.Payload, &e.CreatedAt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Event{}, errs.New(errs.NotFound, "no such event")
	case err != nil:
		return Event{}, fmt.Errorf("reading event %s: %w", id, err)
	case e.Payload != (EventPayload{}) && !e.Payload.isPartial() || !isHandled(e.Type):
		return e, nil
	case s.Provider == nil: // it waits until a provider is configured
		return Event{}, s.on()
	}
	return e, s.fetch(ctx, &e)
}

// fetch replaces the event's payload by the provider's current report of the object. For an unknown object
// the payload stays empty.
func (s *Service) fetch(ctx context.Context, e *Event) error {
	switch {
	case isIntent(e.Type):
		c, err := s.Provider.Charge(ctx, NewCharge{ProviderID: e.Object})
		if err == nil {
			e.Payload.Checkout = &c
		}
		return unlessUnknown(err)
	case isCheckout(e.Type):
		c, err := s.Provider.Checkout(ctx, e.Object)
		if err == nil {
			e.Payload.Checkout = &c
		}
		return unlessUnknown(err)
	case isDispute(e.Type):
		d, err := s.Provider.Dispute(ctx, e.Object)
		if err == nil {
			e.Payload.Dispute = &d
		}
		return unlessUnknown(err)
	}
	said, err := s.Provider.Refund(ctx, NewRefund{ProviderID: e.Object})
	if err == nil {
		e.Payload.Refund = &said
	}
	return unlessUnknown(err)
}

func unlessUnknown(err error) error {
	if errors.Is(err, ErrUnknown) || errors.Is(err, ErrRejected) {
		return nil
	}
	return wrap("asking the provider again", err)
}

// Process does what follows from an event, in the caller's transaction, once.
func (s *Service) Process(ctx context.Context, tx pgx.Tx, e Event) (Outcome, error) {
	var status string
	if err := tx.QueryRow(ctx, lockEvent, e.ID).Scan(&status); err != nil {
		return Outcome{}, fmt.Errorf("locking event %s: %w", e.ID, err)
	}
	if status != "stored" {
		return Outcome{Type: e.Type, Result: ResultUnchanged}, nil
	}
	o, err := s.handle(ctx, tx, e)
	if err != nil {
		return Outcome{}, err
	}
	o.Type = e.Type
	status = "processed"
	switch {
	case o.Attention:
		status = "failed"
	case o.Result == ResultNotOurs, o.Result == resultIgnored:
		status = "ignored"
	}
	if _, err := tx.Exec(ctx, markEvent, e.ID, status, o.Result, o.Reason); err != nil {
		return Outcome{}, fmt.Errorf("marking event %s: %w", e.ID, err)
	}
	failpoint.Hit("payment.process.after_event")
	return o, nil
}

// handle applies an event by the object in its payload. An event of another type is recorded and ignored.
func (s *Service) handle(ctx context.Context, tx pgx.Tx, e Event) (Outcome, error) {
	switch says := e.Payload; {
	case says.isSetup():
		return s.Mandates.Stored(ctx, tx, Claim{Checkout: *says.Checkout, Account: e.Account, Live: e.Livemode})
	case says.Checkout != nil:
		return s.applyReport(ctx, tx, Claim{Checkout: *says.Checkout, Account: e.Account, Live: e.Livemode})
	case says.Refund != nil:
		return s.applyRefundReport(ctx, tx, *says.Refund)
	case says.Dispute != nil:
		return s.applyDispute(ctx, tx, *says.Dispute)
	case isHandled(e.Type):
		return Outcome{Result: ResultNotOurs}, nil
	}
	return Outcome{Result: resultIgnored}, nil
}

// applyReport moves a session according to the claim.
func (s *Service) applyReport(ctx context.Context, tx pgx.Tx, c Claim) (Outcome, error) {
	reference, _ := uuid.Parse(c.Reference) // none of ours, where it is none
	session, err := querySession(ctx, tx, lockClaimed, c.ID, reference)
	switch {
	case errs.CodeOf(err) == errs.NotFound:
		return Outcome{Result: ResultNotOurs}, nil
	case err != nil:
		return Outcome{}, err
	case c.Mode == ModeCharge && !session.isCharge(): // of a checkout, whose own event decides
		return Outcome{Result: resultIgnored}, nil
	}
	return s.move(ctx, tx, session, c)
}

// move applies the result of Next to a locked session.
func (s *Service) move(ctx context.Context, tx pgx.Tx, session Session, c Claim) (Outcome, error) {
	to, reason := Next(session, c)
	if to == Credited && session.State != Credited {
		used, err := s.credit(ctx, tx, session, c)
		if err == nil && !used {
			err = s.charged(ctx, tx, session, to, "")
		}
		if err != nil || !used {
			return Outcome{Result: string(Credited)}, err
		}
		to, reason = FailedReconcile, reasonUsed
	}
	if to == session.State {
		return unmoved(session, c), nil
	}
	if _, err := tx.Exec(ctx, moveSession, session.ID, to, reason, textOrNull(c.ID), nil); err != nil {
		return Outcome{}, fmt.Errorf("moving payment session %s to %s: %w", session.ID, to, err)
	}
	if c.Stage == StageComplete { // a charge that does not exist was not declined
		if err := s.charged(ctx, tx, session, to, c.Failure); err != nil {
			return Outcome{}, err
		}
	}
	if to != FailedReconcile {
		return Outcome{Result: string(to), Reason: reason}, nil
	}
	err := s.state(ctx, tx, session, SubjectReconcileFailed, FailedEvent{Session: session.ID, Reason: reason})
	return Outcome{Result: string(to), Reason: reason, Attention: true}, err
}

// unmoved distinguishes a late report from one that contradicts the session.
func unmoved(session Session, c Claim) Outcome {
	if wrong := c.disagrees(session); wrong != "" && c.Stage == StageComplete && c.Paid != PaidNever {
		return Outcome{Result: ResultDisagrees, Reason: wrong, Attention: true}
	}
	if session.State == Credited && c.Paid == PaidYes && c.Payment != session.Payment {
		return Outcome{Result: ResultDisagrees, Reason: "payment", Attention: true}
	}
	return Outcome{Result: ResultUnchanged}
}

// credit credits the tenant with the payment: the payment's row, the transfer, the session's state and
// the event are one commit. used reports that the payment was credited to another session.
func (s *Service) credit(ctx context.Context, tx pgx.Tx, session Session, c Claim) (used bool, err error) {
	transfer := uuid.Must(uuid.NewV7())
	tag, err := tx.Exec(ctx, insertPayment, c.Payment, session.ID, session.Tenant, session.Amount, session.Currency, transfer)
	if err != nil || tag.RowsAffected() == 0 {
		return true, wrap("recording payment "+c.Payment, err)
	}
	failpoint.Hit("payment.process.after_payment")
	posted, err := s.Ledger.Transfer(ctx, tx, ledger.Transfer{
		ID: transfer, Kind: ledger.TopUp, Reference: c.Payment, From: ledger.Clearing, To: ledger.BalanceOf(session.Tenant),
		Amount: session.Amount, Currency: session.Currency,
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("crediting payment %s: %w", c.Payment, err)
	case !posted:
		return false, fmt.Errorf("payment %s has a transfer but no row: ledger and payments differ", c.Payment)
	}
	failpoint.Hit("payment.process.after_transfer")
	if _, err := tx.Exec(ctx, moveSession, session.ID, Credited, "", c.ID, c.Payment); err != nil {
		return false, fmt.Errorf("moving payment session %s to credited: %w", session.ID, err)
	}
	failpoint.Hit("payment.process.after_session")
	if err := s.state(ctx, tx, session, SubjectCredited, CreditedEvent{
		Session: session.ID, Transfer: transfer.String(), AmountMinor: session.Amount, Currency: session.Currency,
	}); err != nil {
		return false, err
	}
	failpoint.Hit("payment.process.after_fact")
	return false, s.balanceMoved(ctx, tx, session.Tenant)
}

// state states a fact about a session.
func (s *Service) state(ctx context.Context, tx pgx.Tx, session Session, subject string, payload any) error {
	b := &pgx.Batch{}
	event.Queue(b, event.Draft{
		Stream: event.StreamPayments, Subject: subject, Aggregate: "payment_session:" + session.ID.String(), Sequence: session.Version + 1,
		Tenant: session.Tenant, URN: session.URN(s.Naming), CorrelationID: session.CorrelationID, Payload: payload,
	})
	return wrap("stating "+subject, tx.SendBatch(ctx, b).Close())
}

// balanceMoved queues a check of the tenant's balance notices.
func (s *Service) balanceMoved(ctx context.Context, tx pgx.Tx, tenant ids.Tenant) error {
	_, err := s.Jobs.InsertTx(ctx, tx, ledger.CheckRunway{Tenant: tenant.UUID}, nil)
	return wrap("queueing a check of the balance", err)
}

func textOrNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func isCheckout(kind string) bool { return strings.HasPrefix(kind, "checkout.session.") }

// isIntent reports whether the event is about a payment. Ours are charges of stored payment methods; a
// payment of a checkout has an event of the checkout.
func isIntent(kind string) bool { return strings.HasPrefix(kind, "payment_intent.") }

func isDispute(kind string) bool { return strings.HasPrefix(kind, "charge.dispute.") }
