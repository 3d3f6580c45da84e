package autotopup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// Actor is the actor of a charge that no user has requested.
const Actor = "system:auto_topup"

// TopUp charges the payment method of one tenant, if its balance is low.
type TopUp struct {
	Tenant uuid.UUID `json:"tenant" river:"unique"`
}

// Kind names the job to River.
func (TopUp) Kind() string { return "auto_topup" }

// InsertOpts allows one waiting or running job for each tenant. The next minute queues the job again.
func (TopUp) InsertOpts() river.InsertOpts {
	// Priority 4 is the lowest: reports of the provider are processed first.
	return river.InsertOpts{Queue: ledger.QueueBilling, Priority: 4, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

// atOnce limits the tenants of one search.
const atOnce = 500

// Due returns the tenants whose balance is below the threshold of their active mandate.
func (s *Service) Due(ctx context.Context) (due []ids.Tenant, err error) {
	if s.Provider == nil {
		return nil, nil
	}
	for after := (ids.Tenant{}); ; {
		rows, err := s.DB.Query(ctx, selectDue, after, atOnce)
		if err != nil {
			return nil, fmt.Errorf("listing mandates: %w", err)
		}
		page, err := pgx.CollectRows(rows, scanMandate)
		if err != nil {
			return nil, fmt.Errorf("listing mandates: %w", err)
		}
		low, err := s.low(ctx, page)
		due = append(due, low...)
		if err != nil || len(page) < atOnce {
			return due, err
		}
		after = page[len(page)-1].Tenant
	}
}

func (s *Service) low(ctx context.Context, all []Mandate) (low []ids.Tenant, err error) {
	tenants := make([]ids.Tenant, len(all))
	for i, m := range all {
		tenants[i] = m.Tenant
	}
	balances, err := s.Ledger.Balances(ctx, s.DB, tenants)
	for _, m := range all {
		if balances[m.Tenant].Minor < m.Terms.Threshold {
			low = append(low, m.Tenant)
		}
	}
	return low, err
}

// Run charges the payment method of a tenant at most once at a time: it continues the charge without a
// result, or reserves one. After a crash at any point, the next run finds the reserved charge, whose
// number is its idempotency key at the provider.
func (s *Service) Run(ctx context.Context, tenant ids.Tenant) error {
	var method string
	var reserved payment.Session
	var found bool
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		m, live, err := queryOne(ctx, tx, lockConfirmed, tenant)
		if err != nil {
			return err
		}
		method = m.Method
		if reserved, found, err = s.OpenCharge(ctx, tx, tenant); err != nil || found || !live {
			return err
		}
		reserved, found, err = s.reserve(ctx, tx, m)
		failpoint.Hit("topup.reserve.before_commit")
		return err
	})
	if err != nil || !found {
		return err
	}
	failpoint.Hit("topup.reserve.after_commit")
	return s.SendCharge(ctx, reserved, method, func(ctx context.Context) (bool, error) {
		m, live, err := queryOne(ctx, s.DB, selectConfirmed, tenant)
		return live && m.ID == reserved.Mandate && m.Terms.Amount == reserved.Amount && s.chargeable(m), err
	})
}

// chargeable reports whether the tenant and the platform permit charges now.
func (s *Service) chargeable(m Mandate) bool {
	l := s.Limits(identity.Caller{Tenant: m.Tenant})
	return m.State == Active && m.Livemode == s.Provider.Livemode() && l.AutoTopup && l.Check(m.Terms.Amount) == nil
}

// reserve inserts the next charge of a locked mandate if the balance is low and the cap permits it. The
// lock makes concurrent runs of a tenant wait, so each sees the charges of the others in the cap.
func (s *Service) reserve(ctx context.Context, tx pgx.Tx, m Mandate) (reserved payment.Session, ok bool, err error) {
	if !s.chargeable(m) || s.Clock.Now().Before(m.NextAt) {
		return reserved, false, nil
	}
	balance, currency, err := s.Ledger.Balance(ctx, tx, m.Tenant)
	switch {
	case errs.CodeOf(err) == errs.NotFound: // no money has moved
		currency = m.Terms.Currency
	case err != nil:
		return reserved, false, err
	}
	if currency != m.Terms.Currency {
		return reserved, false, s.pause(ctx, tx, m, reasonCurrency)
	}
	pending, err := s.Pending(ctx, tx, m.Tenant)
	if err != nil || balance+pending >= m.Terms.Threshold {
		return reserved, false, err
	}
	charges, err := s.MonthCharges(ctx, tx, m.Tenant)
	if err != nil || charges.Used+m.Terms.Amount > m.Terms.Cap {
		return reserved, false, err
	}
	reserved, err = s.insertCharge(ctx, tx, payment.Session{
		Tenant: m.Tenant, Principal: m.Principal, Amount: m.Terms.Amount, Currency: m.Terms.Currency, Customer: m.Customer, Livemode: m.Livemode,
		Mandate: m.ID, Month: charges.Month, Number: charges.Last + 1, CorrelationID: m.CorrelationID,
	})
	return reserved, err == nil, err
}

// Charges are the charges of a tenant in the current month, by UTC.
type Charges struct {
	Month string      // such as 2026-01
	Used  money.Minor // charged, or in progress
	Last  int         // the highest number, also of a charge that has failed
}

// MonthCharges reads them. A charge that has failed does not count.
func (s *Service) MonthCharges(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (c Charges, err error) {
	if err := q.QueryRow(ctx, selectMonthCharges, tenant).Scan(&c.Month, &c.Used, &c.Last); err != nil {
		return Charges{}, fmt.Errorf("summing the charges of a month: %w", err)
	}
	return c, nil
}

func (s *Service) insertCharge(ctx context.Context, tx pgx.Tx, c payment.Session) (payment.Session, error) {
	c.ID, c.State, c.CreatedAt, c.Version = ids.New[ids.PaymentSession](), payment.Initiated, s.now(), 1
	c.StatusAt, c.ExpiresAt = c.CreatedAt, c.CreatedAt.Add(payment.ChargeLife)
	b := &pgx.Batch{}
	b.Queue(insertCharge, c.ID, c.Tenant, c.Principal, c.Amount, c.Currency, c.Customer, c.Livemode, c.CorrelationID, c.ExpiresAt, c.CreatedAt, c.Mandate, c.Month+"-01", c.Number)
	audit.Queue(b, audit.Entry{
		Tenant: c.Tenant, By: audit.By{Actor: Actor, CorrelationID: c.CorrelationID}, Action: "payment.charge", Target: c.URN(s.Naming),
		After: map[string]any{"amount_minor": c.Amount, "currency": c.Currency, "mandate": c.Mandate, "month": c.Month, "number": c.Number},
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return c, fmt.Errorf("reserving a charge: %w", err)
	}
	return c, nil
}

func (s *Service) pause(ctx context.Context, tx pgx.Tx, m Mandate, reason string) error {
	return s.send(ctx, tx, s.next(m, Paused, reason), audit.By{Actor: Actor, CorrelationID: m.CorrelationID}, "auto_topup.pause")
}

// delays are the times after which a declined charge is repeated. The mandate is paused after one more.
var delays = []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour}

// Charged records the end of a charge in its mandate, in the transaction of the report.
func (s *Service) Charged(ctx context.Context, tx pgx.Tx, session payment.Session, to payment.State, failure string) error {
	m, found, err := queryOne(ctx, tx, lockConfirmed, session.Tenant)
	if err != nil || !found || m.ID != session.Mandate || m.State != Active {
		return err
	}
	switch {
	case to == payment.FailedReconcile:
		return s.pause(ctx, tx, m, reasonReconcile)
	case to == payment.Credited:
		m.Failures = 0
	case to != payment.Expired:
		return nil
	case failure == payment.FailureAuthentication:
		return s.pause(ctx, tx, m, failure)
	case m.Failures >= len(delays):
		return s.pause(ctx, tx, m, reasonDeclined)
	default:
		m.NextAt = s.Clock.Now().Add(delays[m.Failures])
		m.Failures++
	}
	_, err = tx.Exec(ctx, countFailures, m.ID, m.Failures, m.NextAt)
	return err
}

// Missed counts a call for a charge without a result. That proves nothing about the payment method, so the mandate
// stays active. The call is repeated; the next charge after a rejected request is delayed, because the provider would
// reject it, too.
func (s *Service) Missed(ctx context.Context, session payment.Session, cause error) error {
	if !errors.Is(cause, payment.ErrRejected) && !errors.Is(cause, payment.ErrUnknown) {
		s.Failures.WithLabelValues("unavailable").Inc()
		return nil
	}
	s.Failures.WithLabelValues("rejected").Inc()
	if _, err := s.DB.Exec(ctx, delayCharge, session.Mandate, s.Clock.Now().Add(delays[0])); err != nil {
		return fmt.Errorf("delaying the next charge of mandate %s: %w", session.Mandate, err)
	}
	return nil
}

// Stored records the payment method that a checkout has stored, in the transaction of the report. The
// tenant has confirmed nothing yet.
func (s *Service) Stored(ctx context.Context, tx pgx.Tx, c payment.Claim) (payment.Outcome, error) {
	id, err := uuid.Parse(c.Mandate)
	if err != nil {
		return payment.Outcome{Result: payment.ResultNotOurs}, nil //nolint:nilerr // another product uses the same account
	}
	m, found, err := queryOne(ctx, tx, lockMandate, id)
	switch {
	case err != nil:
		return payment.Outcome{}, err
	case !found:
		return payment.Outcome{Result: payment.ResultNotOurs}, nil
	case m.State != Pending, c.Stage == payment.StageOpen:
		return payment.Outcome{Result: payment.ResultUnchanged}, nil
	}
	by := audit.By{Actor: payment.ActorProvider, CorrelationID: m.CorrelationID}
	if c.Stage == payment.StageExpired {
		return payment.Outcome{Result: string(Ended), Reason: reasonExpired}, s.send(ctx, tx, s.next(m, Ended, reasonExpired), by, "auto_topup.end")
	}
	if wrong := differs(m, c); wrong != "" {
		return payment.Outcome{Result: payment.ResultDisagrees, Reason: wrong, Attention: true}, nil
	}
	m.Session, m.Method = c.ID, c.Method
	return payment.Outcome{Result: string(Unconfirmed)}, s.send(ctx, tx, s.next(m, Unconfirmed, ""), by, "auto_topup.store")
}

// differs returns the first field in which the report of a checkout differs from the mandate.
func differs(m Mandate, c payment.Claim) string {
	switch {
	case c.Account != "":
		return "account"
	case c.Live != m.Livemode || c.Livemode != m.Livemode:
		return "livemode"
	case c.Reference != m.ID.String():
		return "reference"
	case m.Session != "" && c.ID != m.Session:
		return "checkout"
	case c.Customer != m.Customer:
		return "customer"
	case c.Method == "":
		return "payment_method"
	}
	return ""
}

// Exists reports whether a mandate is active.
func (s *Service) Exists(ctx context.Context) (exists bool, err error) {
	err = s.DB.QueryRow(ctx, selectExists).Scan(&exists)
	return exists, err
}
