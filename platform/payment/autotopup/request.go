package autotopup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// setupReturn leads from the page that stores a card to the amounts, which the owner confirms.
const setupReturn = "/?to=billing"

// View is a mandate with what the tenant has been charged in this month.
type View struct {
	Mandate

	Charged money.Minor
}

// Get reads a mandate of the caller's tenant.
func (s *Service) Get(ctx context.Context, c identity.Caller, id ids.Mandate) (View, error) {
	m, found, err := queryOne(ctx, s.DB, selectMandate, id, c.Tenant)
	switch {
	case err != nil:
		return View{}, err
	case !found:
		return View{}, errs.New(errs.NotFound, "no such automatic top-up")
	}
	all, err := s.views(ctx, c.Tenant, m)
	if err != nil {
		return View{}, err
	}
	return all[0], nil
}

// List returns the mandates of the caller's tenant, newest first, from the one after the given on.
func (s *Service) List(ctx context.Context, c identity.Caller, after ids.Mandate, limit int) ([]View, error) {
	rows, err := s.DB.Query(ctx, selectMandates, c.Tenant, after, limit)
	if err != nil {
		return nil, fmt.Errorf("listing mandates: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanMandate)
	if err != nil {
		return nil, fmt.Errorf("listing mandates: %w", err)
	}
	return s.views(ctx, c.Tenant, all...)
}

func (s *Service) views(ctx context.Context, tenant ids.Tenant, all ...Mandate) ([]View, error) {
	charges, err := s.MonthCharges(ctx, s.DB, tenant)
	views := make([]View, len(all))
	for i, m := range all {
		views[i] = View{m, charges.Used}
	}
	return views, err
}

// allowed returns an error if payments or automatic top-ups are off for the caller's tenant.
func (s *Service) allowed(c identity.Caller) (payment.Limits, error) {
	if s.Provider == nil {
		return payment.Limits{}, errs.New(errs.NotFound, "payments are off in this environment").Try("request credit from an operator")
	}
	l := s.Limits(c)
	if !l.AutoTopup {
		return l, errs.New(errs.PolicyDenied, "automatic top-ups are off for this tenant").
			Try("request payment.auto_topup_enabled from an operator")
	}
	return l, nil
}

// setupLife is the lifetime of the page that stores a payment method. It is within the limits of the provider.
const setupLife = time.Hour

// Begin opens a page of the provider that stores a payment method. The row is committed before the call of
// the provider, and its id is the idempotency key of the call. It replaces a mandate that was never
// confirmed, so a repeated request opens another page and charges nothing. A confirmed mandate stays until
// the new one is confirmed.
func (s *Service) Begin(ctx context.Context, ch identity.Change[View]) (View, error) {
	if _, err := s.allowed(ch.Caller); err != nil {
		return View{}, err
	}
	tenant, err := s.Identity.TenantByID(ctx, ch.Caller.Tenant)
	if err != nil {
		return View{}, err
	}
	customer, err := s.Customer(ctx, ch.Caller)
	if err != nil {
		return View{}, err
	}
	now := s.now()
	m := Mandate{
		ID: ids.New[ids.Mandate](), Tenant: tenant.ID, Principal: ch.Caller.Principal(), State: Pending, Customer: customer, Livemode: s.Provider.Livemode(),
		Terms: Terms{Currency: tenant.Currency}, NextAt: now, CorrelationID: ch.Caller.CorrelationID, Version: 1, CreatedAt: now, UpdatedAt: now, request: ch.Key.Hash(),
	}
	if m, err = s.insert(ctx, ch, m); err != nil {
		return View{}, err
	}
	page, err := s.Provider.OpenSetup(ctx, payment.NewSetup{
		Mandate: m.ID, Tenant: m.Tenant, Customer: customer, Currency: m.Terms.Currency, SuccessURL: s.PublicURL() + setupReturn, CancelURL: s.PublicURL() + setupReturn,
		ExpiresAt: m.CreatedAt.Add(setupLife).Truncate(time.Second),
	})
	if err != nil {
		_, ended := s.end(ctx, identity.Change[Mandate]{Caller: ch.Caller}, m, reasonUnopened)
		return View{}, errors.Join(s.Failed(ctx, "opening the page of mandate "+m.ID.String(), err), ended)
	}
	m.Session, m.URL = page.ID, page.URL
	return ch.Apply(ctx, s.Identity, func() (View, func(*pgx.Batch), error) {
		all, err := s.views(ctx, m.Tenant, m)
		return all[0], func(b *pgx.Batch) {
			b.Queue(openMandate, m.ID, m.Session, m.URL).Exec(pg.OrElse(errRaced))
		}, err
	})
}

// errInFlight is the error of a request whose key another request has used meanwhile.
var errInFlight error = errs.New(errs.IdempotencyInFlight, "a request with this idempotency key is at work").Try("repeat it in a moment")

// openWithin is longer than the call that opens a page, with its repetition.
const openWithin = time.Minute

// insert commits a new mandate, and ends one that was never confirmed. Concurrent requests with one idempotency key have
// one mandate: while the first may be at work, the others are rejected, and after its crash it is continued.
func (s *Service) insert(ctx context.Context, ch identity.Change[View], m Mandate) (Mandate, error) {
	old, found, err := queryOne(ctx, s.DB, selectBegun, m.Tenant)
	if err != nil {
		return m, err
	}
	// Read after the mandate: if this key has no response now, its mandate is still pending and has its hash. The
	// version detects a later change.
	if _, done, err := s.Identity.Replay(ctx, ch.Key); err != nil || done {
		return m, cmp.Or(err, errInFlight)
	}
	var replaced []Mandate
	same := found && m.request != nil && bytes.Equal(old.request, m.request)
	switch age := m.CreatedAt.Sub(old.CreatedAt); {
	case same && age < openWithin:
		return m, errInFlight
	case same && age < setupLife/3: // the provider opens no page that ends within half an hour
		return old, nil
	case found:
		replaced = append(replaced, old)
	}
	c, b := ch.Caller, &pgx.Batch{}
	s.note(b, m, c.Cause(), "auto_topup.create", replaced)
	b.Queue(insertMandate, m.ID, m.Tenant, m.Principal, m.State, m.Customer, m.Livemode, m.Terms.Currency, m.NextAt, m.CorrelationID, m.CreatedAt, m.request).
		Exec(pg.OrElse(errRaced))
	s.emit(b, m, c.Cause())
	if err := pg.Commit(ctx, s.DB, b, func() {}); err != nil {
		return m, fmt.Errorf("inserting a mandate: %w", err)
	}
	return m, nil
}

// Confirm makes a mandate active with the terms that the owner of the tenant has confirmed. It also
// resumes a paused mandate, and changes the terms of an active one. Another mandate of the tenant ends.
func (s *Service) Confirm(ctx context.Context, ch identity.Change[View], id ids.Mandate, t Terms) (View, error) {
	if _, err := s.Get(ctx, ch.Caller, id); err != nil {
		return View{}, err // first: an error of the policy would distinguish mandates of other tenants
	}
	l, err := s.allowed(ch.Caller)
	if err != nil {
		return View{}, err
	}
	if err := l.Check(t.Amount); err != nil {
		return View{}, err
	}
	if t.Cap < t.Amount {
		return View{}, errs.Invalid("monthly_cap_minor", "must be at least amount_minor, %d", t.Amount)
	}
	v, err := ch.Apply(ctx, s.Identity, func() (View, func(*pgx.Batch), error) {
		v, err := s.Get(ctx, ch.Caller, id)
		if err == nil {
			err = confirmable(v.Mandate, t)
		}
		if err != nil {
			return v, nil, err
		}
		old, found, err := queryOne(ctx, s.DB, selectConfirmed, ch.Caller.Tenant)
		now := s.now()
		v.Mandate = s.next(v.Mandate, Active, "")
		v.Terms, v.Failures, v.NextAt, v.ConfirmedAt, v.Principal = t, 0, now, &now, ch.Caller.Principal()
		var replaced []Mandate
		if found && old.ID != id {
			replaced = append(replaced, old)
		}
		return v, func(b *pgx.Batch) {
			s.note(b, v.Mandate, ch.Caller.Cause(), "auto_topup.confirm", replaced) // the other one first: a tenant has one
			s.write(b, v.Mandate, ch.Caller.Cause())
		}, err
	})
	if taken, ok := errors.AsType[*pgconn.PgError](err); ok && taken.ConstraintName == "payment_mandates_one_confirmed" {
		return View{}, errRaced
	}
	return v, err
}

func confirmable(m Mandate, t Terms) error {
	switch {
	case m.State == Ended:
		return errs.New(errs.Conflict, "this automatic top-up has ended: %s", m.Reason).Try("gpuaas balance auto-topup create")
	case m.State == Pending:
		return errs.New(errs.Conflict, "no payment method is stored yet").Try("open the page of the automatic top-up").With("url", m.URL)
	case t.Currency != m.Terms.Currency:
		return errs.Invalid("currency", "must be %s, the currency of the tenant", m.Terms.Currency)
	}
	return nil
}

// End ends a mandate. A charge that was reserved and not sent is not sent.
func (s *Service) End(ctx context.Context, ch identity.Change[Mandate], id ids.Mandate) error {
	v, err := s.Get(ctx, ch.Caller, id)
	if err == nil && v.State == Ended {
		err = errs.New(errs.NotFound, "no such automatic top-up")
	}
	if err == nil {
		_, err = s.end(ctx, ch, v.Mandate, reasonByTenant)
	}
	return err
}

func (s *Service) end(ctx context.Context, ch identity.Change[Mandate], m Mandate, reason string) (Mandate, error) {
	m = s.next(m, Ended, reason)
	return ch.Apply(ctx, s.Identity, func() (Mandate, func(*pgx.Batch), error) {
		return m, func(b *pgx.Batch) { s.queue(b, m, ch.Caller.Cause(), "auto_topup.end") }, nil
	})
}

// EndOf ends the mandates of a tenant that is deleted, in the transaction of the deletion. It waits for a
// charge that is being reserved, so that the caller sees it afterwards.
func (s *Service) EndOf(ctx context.Context, tx pgx.Tx, tenant ids.Tenant, by audit.By) error {
	rows, err := tx.Query(ctx, lockLive, tenant)
	if err != nil {
		return fmt.Errorf("locking the mandates of tenant %s: %w", tenant, err)
	}
	all, err := pgx.CollectRows(rows, scanMandate)
	for _, m := range all {
		if err == nil {
			err = s.send(ctx, tx, s.next(m, Ended, reasonTenantGone), by, "auto_topup.end")
		}
	}
	return err
}
