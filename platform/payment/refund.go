package payment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// Kind is the target of a refund: the card or the balance.
type Kind string

// The kinds.
const (
	Unspent Kind = "unspent" // credit that was not used: to the card, out of the balance
	Charge  Kind = "charge"  // what was charged: to the card, or as credit
)

// Route is the path of a refund. It is chosen once, and stored.
type Route string

// The routes.
const (
	ToCard   Route = "card"
	ToLedger Route = "ledger"
)

// RefundState is the state of a refund.
type RefundState string

// The states of a refund.
const (
	Requested RefundState = "requested"
	Succeeded RefundState = "succeeded"
	Failed    RefundState = "failed" // and its transfer is reversed
)

// Refund is one request for a refund and its result.
type Refund struct {
	ID            ids.Refund
	Tenant        ids.Tenant
	User          ids.User // the user in the request
	RequestedBy   string   // actor
	Kind          Kind
	Route         Route
	Session       *ids.PaymentSession // whose payment is refunded; nil as credit
	Payment       string
	Amount        money.Minor
	Currency      string
	Reason        string
	State         RefundState
	Failure       string
	ProviderID    string
	Transfer      uuid.UUID
	CorrelationID string
	CreatedAt     time.Time
	SettledAt     *time.Time
	Version       int64

	tenantName string // by which policy knows it
}

func (r Refund) caller() identity.Caller {
	return identity.Caller{Tenant: r.Tenant, TenantName: r.tenantName, User: r.User}
}

// URN is the refund's resource name.
func (r Refund) URN(n ids.Naming) string {
	return n.Name(r.Tenant.String(), "", "refund", r.ID.String()).String()
}

// RefundRequest requests a refund for a user's tenant.
type RefundRequest struct {
	User    ids.User
	Kind    Kind
	Amount  money.Minor
	Session *ids.PaymentSession // the payment to refund; nil: the newest that covers it
	Reason  string
}

// reasonLength is the limit of a note in the ledger.
const reasonLength = 512

// rounds is the number of attempts of a refund while others change the same payment. In each round at
// least one of them succeeds.
const rounds = 100

// errTaken means that another refund has reduced the payment meanwhile.
var errTaken = errors.New("another refund was faster")

// Refund refunds an amount by decision of an operator: to the card if a payment within the window covers
// it, otherwise as credit for a charge. The amount is subtracted from the payment and moved in the
// ledger at once. A worker then sends the refund to the provider, and reverses both if the card does not
// receive it.
func (s *Service) Refund(ctx context.Context, ch identity.Change[Refund], r RefundRequest) (Refund, error) {
	drafted, err := s.draftRefund(ctx, ch.Caller, r)
	if err != nil {
		return Refund{}, err
	}
	for try := 1; ; try++ {
		err := s.route(ctx, &drafted, r)
		if err != nil {
			return Refund{}, err
		}
		err = s.give(ctx, ch, drafted)
		switch {
		case err == nil:
			s.Hints.Send(event.Topic)
			return drafted, nil
		case errors.Is(err, errPromotional) && r.Session == nil: // a charge, that no payment has covered
			drafted.toLedger()
			if err := s.give(ctx, ch, drafted); err != nil {
				return Refund{}, err
			}
			s.Hints.Send(event.Topic)
			return drafted, nil
		case !errors.Is(err, errTaken):
			return Refund{}, err
		case try == rounds:
			return Refund{}, errs.New(errs.Conflict, "another request refunds from the same payment").Try("repeat it in a moment")
		}
	}
}

// draftRefund validates the request and reads the tenant of the user. It changes nothing.
func (s *Service) draftRefund(ctx context.Context, c identity.Caller, r RefundRequest) (Refund, error) {
	r.Reason = strings.TrimSpace(r.Reason)
	switch {
	case r.Kind != Unspent && r.Kind != Charge:
		return Refund{}, errs.Invalid("kind", "is %s or %s", Unspent, Charge)
	case r.Amount <= 0:
		return Refund{}, errs.Invalid("amount_minor", "must be above zero")
	case r.Reason == "" || utf8.RuneCountInString(r.Reason) > reasonLength || strings.ContainsFunc(r.Reason, unicode.IsControl):
		return Refund{}, errs.Invalid("reason", "must be one line of 1 to %d characters", reasonLength)
	}
	u, err := s.Identity.UserByID(ctx, r.User)
	switch {
	case errs.CodeOf(err) == errs.NotFound:
		return Refund{}, errs.New(errs.UserNotFound, "no such user")
	case err != nil:
		return Refund{}, err
	case u.Tenant == (ids.Tenant{}):
		return Refund{}, errs.New(errs.Conflict, "this user belongs to no tenant")
	}
	tenant, err := s.Identity.TenantByID(ctx, u.Tenant)
	return Refund{
		ID: ids.New[ids.Refund](), Tenant: u.Tenant, User: r.User, RequestedBy: c.Actor(), Kind: r.Kind, Amount: r.Amount, Currency: tenant.Currency,
		Reason: r.Reason, State: Requested, Transfer: uuid.Must(uuid.NewV7()), CorrelationID: c.CorrelationID,
		CreatedAt: s.Clock.Now().Truncate(time.Microsecond), Version: 1, tenantName: u.TenantName,
	}, err
}

// rest is the part of a payment that is not refunded.
type rest struct {
	payment  string
	session  ids.PaymentSession
	amount   money.Minor
	inWindow bool
}

// route chooses the way, and the payment.
func (s *Service) route(ctx context.Context, drafted *Refund, r RefundRequest) error {
	found, err := s.bearer(ctx, *drafted, r.Session)
	switch {
	case err != nil && (r.Session != nil || r.Kind == Unspent || !unbearable(err)):
		return err
	case err != nil: // a charge, that no payment bears
		drafted.toLedger()
	default:
		drafted.Route, drafted.Payment, drafted.Session = ToCard, found.payment, &found.session
	}
	return nil
}

// toLedger routes a refund to the balance, where it is complete at once.
func (r *Refund) toLedger() {
	settled := r.CreatedAt
	r.Route, r.Payment, r.Session, r.State, r.SettledAt = ToLedger, "", nil, Succeeded, &settled
}

// errPromotional rejects the refund of a charge to a card because promotional credit has covered the charge.
var errPromotional = errs.New(errs.RefundExceedsPayment, "promotional credit has covered a part of these charges, and no card receives it").
	At("amount_minor").Try("request less, or leave the payment out: the refund is then credited")

func unbearable(err error) bool {
	code := errs.CodeOf(err)
	return code == errs.RefundExceedsPayment || code == errs.RefundWindowExceeded
}

// bearer finds the payment that bears a refund: the named one, or the newest.
func (s *Service) bearer(ctx context.Context, r Refund, named *ids.PaymentSession) (found rest, err error) {
	none := errs.New(errs.RefundExceedsPayment, "no payment within the refund window bears this amount").
		At("amount_minor").Try("request less, or name a payment")
	if s.Provider == nil {
		return rest{}, none
	}
	window := s.Limits(r.caller()).RefundWindow
	var row pgx.Row
	if named != nil {
		row = s.DB.QueryRow(ctx, selectNamedPayment, r.Tenant, s.Provider.Livemode(), window, *named)
	} else {
		row = s.DB.QueryRow(ctx, selectBearingPayment, r.Tenant, s.Provider.Livemode(), window, r.Amount)
	}
	err = row.Scan(&found.payment, &found.session, &found.amount, &found.inWindow)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && named != nil:
		return rest{}, errs.New(errs.NotFound, "this user's tenant has no such payment").At("payment_session_id")
	case errors.Is(err, pgx.ErrNoRows):
		return rest{}, none
	case err != nil:
		return rest{}, fmt.Errorf("looking for a payment that bears a refund: %w", err)
	case !found.inWindow:
		return rest{}, errs.New(errs.RefundWindowExceeded, "this payment was credited more than %d days ago", int(window/(24*time.Hour))).
			At("payment_session_id").Try("give it back as credit: leave the payment out")
	case found.amount < r.Amount:
		return rest{}, errs.New(errs.RefundExceedsPayment, "of this payment %d minor units are left", found.amount).
			At("amount_minor").With("left_minor", found.amount)
	}
	return found, nil
}

// give is the one transaction of a request.
func (s *Service) give(ctx context.Context, ch identity.Change[Refund], r Refund) error {
	b := &pgx.Batch{}
	s.Identity.QueueKey(b, ch.Key, answer(ch, r))
	identity.QueueLock(b, r.caller())
	var refunded money.Minor
	b.Queue(selectCardCharges, r.Tenant).QueryRow(func(row pgx.Row) error { return row.Scan(&refunded) })
	ledger.QueueHoldings(b, r.Tenant, func(h ledger.Holdings) error { return r.covered(h, refunded) }) // under that lock
	if r.Route == ToCard {
		window := s.Limits(r.caller()).RefundWindow
		b.Queue(takeFromPayment, r.Payment, r.Tenant, r.Amount, window).Exec(pg.OrElse(errTaken))
	}
	s.queueRefund(b, r)
	s.note(b, ch.Caller, "payment.refund", r.Tenant, r.URN(s.Naming), map[string]any{
		"user": r.User, "kind": r.Kind, "route": r.Route, "amount_minor": r.Amount, "currency": r.Currency, "reason": r.Reason,
	})
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if r.Route == ToCard {
			if _, err := s.Jobs.InsertTx(ctx, tx, RecordRefund{Refund: r.ID}, nil); err != nil {
				return fmt.Errorf("queueing refund %s: %w", r.ID, err)
			}
		}
		failpoint.Hit("payment.refund.before_commit")
		return s.balanceMoved(ctx, tx, r.Tenant)
	})
	if err == nil {
		failpoint.Hit("payment.refund.after_commit")
	}
	return err
}

// covered rejects a refund of more than the paid part of the balance, or of more than was charged.
// refunded is the amount of charges that were refunded to cards, which the balance does not contain.
func (r Refund) covered(h ledger.Holdings, refunded money.Minor) error {
	left := h.Charged - refunded
	switch {
	case r.Kind == Charge && r.Amount > left:
		return errs.New(errs.RefundExceedsCharges, "the tenant was charged less than this, without what was credited or refunded").
			At("amount_minor").With("left_minor", max(left, 0)).With("currency", r.Currency).Try("request less, or adjust the balance")
	case r.Kind == Charge && r.Route == ToCard && r.Amount > h.PaidUse-refunded:
		return errPromotional
	case r.Kind == Charge, r.Amount <= h.Paid:
		return nil
	case r.Amount <= h.Balance():
		return errs.New(errs.RefundExceedsPayment, "a part of the balance is promotional credit, which no card receives").
			At("amount_minor").With("left_minor", max(h.Paid, 0)).With("currency", r.Currency).Try("request less")
	}
	return errs.New(errs.InsufficientBalance, "the balance does not cover this").
		With("balance_minor", h.Balance()).With("needed_minor", r.Amount).With("currency", r.Currency).Try("request less")
}

// transfer returns the ledger transfer of a refund.
func (r Refund) transfer() ledger.Transfer {
	t := ledger.Transfer{ID: r.Transfer, Reference: r.ID.String(), Amount: r.Amount, Currency: r.Currency, Note: r.Reason}
	switch {
	case r.Kind == Unspent:
		t.Kind, t.From, t.To = ledger.RefundCardUnspent, ledger.BalanceOf(r.Tenant), ledger.Clearing
	case r.Route == ToCard:
		t.Kind, t.From, t.To = ledger.RefundCardCharge, ledger.Refunds, ledger.Clearing
	default:
		t.Kind, t.From, t.To = ledger.RefundLedger, ledger.Refunds, ledger.BalanceOf(r.Tenant)
	}
	return t
}

// queueRefunded emits the event of a completed refund.
func (s *Service) queueRefunded(b *pgx.Batch, r Refund) {
	event.Queue(b, event.Draft{
		Stream: event.StreamPayments, Subject: SubjectRefunded, Aggregate: "refund:" + r.ID.String(), Sequence: r.Version,
		Tenant: r.Tenant, URN: r.URN(s.Naming), CorrelationID: r.CorrelationID,
		Payload: RefundedEvent{Refund: r.ID, Route: r.Route, AmountMinor: r.Amount, Currency: r.Currency},
	})
}

// Refunds lists those of a tenant, or of all when it is zero, newest first, from
// the one after the given on.
func (s *Service) Refunds(ctx context.Context, tenant ids.Tenant, after ids.Refund, limit int) ([]Refund, error) {
	var rows pgx.Rows
	var err error
	if tenant == (ids.Tenant{}) {
		rows, err = s.DB.Query(ctx, selectAllRefunds, after, limit)
	} else {
		rows, err = s.DB.Query(ctx, selectRefunds, tenant, after, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("listing refunds: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanRefund)
	return all, wrap("listing refunds", err)
}

func scanRefund(row pgx.CollectableRow) (r Refund, err error) {
	err = row.Scan(&r.ID, &r.Tenant, &r.User, &r.RequestedBy, &r.Kind, &r.Route, &r.Session, &r.Payment, &r.Amount, &r.Currency, &r.Reason,
		&r.State, &r.Failure, &r.ProviderID, &r.Transfer, &r.CorrelationID, &r.CreatedAt, &r.SettledAt, &r.Version)
	r.CreatedAt = r.CreatedAt.UTC()
	return r, err
}
