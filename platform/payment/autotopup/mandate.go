// Package autotopup owns mandates: the permission of a tenant to charge a stored payment method when the
// balance is low. It decides when a charge is due and what follows from its result. The package payment
// owns the charge, which is a payment session, and credits it as it does a checkout.
package autotopup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// Service implements the use cases of automatic top-ups.
type Service struct {
	*payment.Service

	// Failures counts the calls for charges without a result, by reason.
	Failures *prometheus.CounterVec
}

// New returns the service, which receives what the provider reports about mandates.
func New(payments *payment.Service) *Service {
	s := &Service{payments, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpuaas_auto_topup_failures_total", Help: "Calls for automatic charges without a result, by reason. A decline is a result.",
	}, []string{"reason"})}
	payments.Mandates = payment.Mandates{Stored: s.Stored, Charged: s.Charged, Missed: s.Missed}
	return s
}

// State is the state of a mandate.
type State string

// The states of a mandate.
const (
	Pending     State = "pending"     // the page that stores the payment method is open
	Unconfirmed State = "unconfirmed" // a payment method is stored
	Active      State = "active"      // the tenant has confirmed the terms
	Paused      State = "paused"      // until the tenant confirms the terms again
	Ended       State = "ended"
)

// Reasons of a pause or an end, in addition to the failures of the package payment.
const (
	reasonDeclined   = "declined"         // too often in a row
	reasonReconcile  = "failed_reconcile" // the provider has charged something else
	reasonCurrency   = "currency"         // the balance has another one
	reasonRestored   = "restored"         // the database was restored, and has lost charges
	reasonReplaced   = "replaced"
	reasonExpired    = "expired"
	reasonUnopened   = "never_opened"
	reasonByTenant   = "ended_by_tenant"
	reasonTenantGone = "tenant_deleted"
)

// Terms contain the amounts that the tenant confirms.
type Terms struct {
	Threshold money.Minor // a balance below it is topped up
	Amount    money.Minor // of each charge
	Cap       money.Minor // of all charges of a month, by UTC
	Currency  string
}

// Mandate is the permission of a tenant to charge a stored payment method.
type Mandate struct {
	ID            ids.Mandate
	Tenant        ids.Tenant
	Principal     uuid.UUID // who has begun it; then who has confirmed it
	State         State
	Reason        string
	Customer      string
	Livemode      bool
	Session       string // the checkout that stores the payment method
	URL           string // its page; empty unless the state is Pending
	Method        string
	Terms         Terms
	Failures      int // declined charges since the last credit
	NextAt        time.Time
	CorrelationID string
	Version       int64
	CreatedAt     time.Time
	UpdatedAt     time.Time
	ConfirmedAt   *time.Time

	request []byte // hash of the idempotency key of its request, while it is pending
}

// URN is the mandate's resource name.
func (m Mandate) URN(n ids.Naming) string {
	return n.Name(m.Tenant.String(), "", "auto-topup", m.ID.String()).String()
}

// Subjects of the events that this package emits.
const (
	SubjectChanged = "payments.auto_topup_changed"
	SubjectPaused  = "payments.auto_topup_paused"
)

// ChangedEvent is the payload of both subjects.
type ChangedEvent struct {
	Mandate ids.Mandate `json:"auto_topup_id"`
	Status  State       `json:"status"`
	Reason  string      `json:"reason"`
}

// next returns the mandate in its next state. A page is open in the state Pending only.
func (s *Service) next(m Mandate, to State, reason string) Mandate {
	m.State, m.Reason, m.URL, m.Version, m.UpdatedAt = to, reason, "", m.Version+1, s.now()
	return m
}

// now returns the time in the precision of the database.
func (s *Service) now() time.Time { return s.Clock.Now().UTC().Truncate(time.Microsecond) }

// queue writes the next state of a mandate with its audit row and its event.
func (s *Service) queue(b *pgx.Batch, m Mandate, by audit.By, action string) {
	s.write(b, m, by)
	s.note(b, m, by, action, nil)
}

// write writes the next state of a mandate with its event.
func (s *Service) write(b *pgx.Batch, m Mandate, by audit.By) {
	b.Queue(updateMandate, m.ID, m.Version, m.State, m.Reason, m.Session, m.URL, m.Method, m.Terms.Threshold, m.Terms.Amount, m.Terms.Cap,
		m.Failures, m.NextAt, m.ConfirmedAt, m.Principal, m.UpdatedAt).Exec(pg.OrElse(errRaced))
	s.emit(b, m, by)
}

// note queues the audit row of a change. A mandate that another one replaces ends by the same change, so it has an
// event and no audit row of its own.
func (s *Service) note(b *pgx.Batch, m Mandate, by audit.By, action string, replaced []Mandate) {
	after := map[string]any{
		"status": m.State, "reason": m.Reason, "threshold_minor": m.Terms.Threshold, "amount_minor": m.Terms.Amount, "monthly_cap_minor": m.Terms.Cap,
		"currency": m.Terms.Currency,
	}
	for _, old := range replaced {
		s.write(b, s.next(old, Ended, reasonReplaced), by)
		after["replaces"] = old.ID
	}
	audit.Queue(b, audit.Entry{Tenant: m.Tenant, By: by, Action: action, Target: m.URN(s.Naming), After: after})
}

func (s *Service) emit(b *pgx.Batch, m Mandate, by audit.By) {
	subject := SubjectChanged
	if m.State == Paused {
		subject = SubjectPaused
	}
	event.Queue(b, event.Draft{
		Stream: event.StreamPayments, Subject: subject, Aggregate: "auto_topup:" + m.ID.String(), Sequence: m.Version,
		Tenant: m.Tenant, URN: m.URN(s.Naming), CorrelationID: by.CorrelationID, Payload: ChangedEvent{Mandate: m.ID, Status: m.State, Reason: m.Reason},
	})
}

// send writes a mandate that the transaction has locked.
func (s *Service) send(ctx context.Context, tx pgx.Tx, m Mandate, by audit.By, action string) error {
	b := &pgx.Batch{}
	s.queue(b, m, by, action)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("updating mandate %s: %w", m.ID, err)
	}
	return nil
}

// errRaced means that another transaction has changed the mandate since it was read.
var errRaced = errs.New(errs.Conflict, "the automatic top-up was changed by another request").Try("read it again and repeat the change")

func scanMandate(row pgx.CollectableRow) (m Mandate, err error) {
	err = row.Scan(&m.ID, &m.Tenant, &m.Principal, &m.State, &m.Reason, &m.Customer, &m.Livemode, &m.Terms.Currency, &m.Session, &m.URL, &m.Method,
		&m.Terms.Threshold, &m.Terms.Amount, &m.Terms.Cap, &m.Failures, &m.NextAt, &m.CorrelationID, &m.Version, &m.CreatedAt, &m.UpdatedAt, &m.ConfirmedAt, &m.request)
	m.CreatedAt, m.UpdatedAt = m.CreatedAt.UTC(), m.UpdatedAt.UTC()
	return m, err
}

// queryOne reads a mandate. found is false if there is none.
func queryOne(ctx context.Context, q pg.Queryer, sql string, args ...any) (m Mandate, found bool, err error) {
	rows, err := q.Query(ctx, sql, args...)
	if err == nil {
		m, err = pgx.CollectExactlyOneRow(rows, scanMandate)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Mandate{}, false, nil
	case err != nil:
		return Mandate{}, false, fmt.Errorf("reading a mandate: %w", err)
	}
	return m, true, nil
}
