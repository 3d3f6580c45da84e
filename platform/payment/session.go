package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Session is one checkout, from the wish to pay to the credit.
type Session struct {
	ID         ids.PaymentSession
	Tenant     ids.Tenant
	Principal  uuid.UUID // who wants to pay
	Amount     money.Minor
	Currency   string
	State      State
	Reason     string // why it failed or ended: amount, expired …
	Customer   string // who the tenant is to the provider
	ProviderID string // of the checkout there; empty until it is open
	Payment    string // of the money there; empty until it came
	URL        string // where to pay; empty unless it is open
	Livemode   bool
	// Mandate is set for a charge of a stored payment method. The month and the number identify the charge
	// within its tenant.
	Mandate ids.Mandate
	Month   string
	Number  int
	// CorrelationID names the request that began it.
	CorrelationID string
	ExpiresAt     time.Time
	CreatedAt     time.Time
	StatusAt      time.Time
	CheckedAt     *time.Time // time of the last query of the provider
	Version       int64
}

// URN is the session's resource name.
func (s Session) URN(n ids.Naming) string {
	return n.Name(s.Tenant.String(), "", "payment-session", s.ID.String()).String()
}

// The limits of a checkout's lifetime, with a margin for clock differences: the provider accepts no
// expiry before half an hour or after one day.
const (
	leastOpen = 30 * time.Minute
	mostOpen  = 24 * time.Hour
	skew      = 5 * time.Minute
)

// Begin opens a checkout. The row is committed before the call of the provider, and its id is the
// idempotency key of the call. After a crash in between, the same request continues with the row, or the
// sweep ends it. A session that the provider rejects is final.
func (s *Service) Begin(ctx context.Context, ch identity.Change[Session], amount money.Minor) (Session, error) {
	drafted, err := s.draft(ctx, ch.Caller, amount)
	if err != nil {
		return Session{}, err
	}
	begun, err := s.initiate(ctx, ch, drafted)
	if err != nil {
		return Session{}, err
	}
	failpoint.Hit("payment.begin.after_row")
	base := s.PublicURL() + PagePath + begun.ID.String()
	c, err := s.Provider.OpenCheckout(ctx, NewCheckout{
		Session: begun.ID, Tenant: begun.Tenant, Customer: begun.Customer, Amount: begun.Amount, Currency: begun.Currency,
		SuccessURL: base, CancelURL: base + "?cancelled", ExpiresAt: begun.ExpiresAt,
	})
	if err != nil {
		return Session{}, errors.Join(s.Failed(ctx, "opening checkout "+begun.ID.String(), err), s.giveUp(ctx, begun.ID))
	}
	failpoint.Hit("payment.begin.after_provider")
	return s.opened(ctx, ch, begun, c)
}

// giveUp ends a session that could not be opened. The provider may repeat its error for this id for a
// day. If it has opened the checkout after all, no user knows its address. The next request creates
// another session.
func (s *Service) giveUp(ctx context.Context, id ids.PaymentSession) error {
	_, err := s.DB.Exec(ctx, giveUpSession, id)
	return wrap("giving a payment session up", err)
}

func (s *Service) draft(ctx context.Context, c identity.Caller, amount money.Minor) (Session, error) {
	if err := s.on(); err != nil {
		return Session{}, err
	}
	l := s.Limits(c)
	if err := l.Check(amount); err != nil {
		return Session{}, err
	}
	tenant, err := s.Identity.TenantByID(ctx, c.Tenant) // its balance may have no account yet
	if err != nil {
		return Session{}, err
	}
	customer, err := s.Customer(ctx, c)
	if err != nil {
		return Session{}, err
	}
	now := s.Clock.Now().Truncate(time.Microsecond) // in the precision of the database
	open := min(max(l.SessionTTL, leastOpen+skew), mostOpen-skew)
	return Session{
		ID: ids.New[ids.PaymentSession](), Tenant: c.Tenant, Principal: c.Principal(), Amount: amount, Currency: tenant.Currency, State: Initiated,
		Customer: customer, Livemode: s.Provider.Livemode(), CorrelationID: c.CorrelationID,
		ExpiresAt: now.Add(open).Truncate(time.Second), CreatedAt: now, StatusAt: now, Version: 1,
	}, nil
}

// Customer returns the tenant's customer at the provider, and creates it if it does not exist.
func (s *Service) Customer(ctx context.Context, c identity.Caller) (customer string, err error) {
	live := s.Provider.Livemode()
	err = s.DB.QueryRow(ctx, selectCustomer, c.Tenant, live).Scan(&customer)
	if !errors.Is(err, pgx.ErrNoRows) {
		return customer, wrap("reading who the tenant is to the provider", err)
	}
	if customer, err = s.Provider.CreateCustomer(ctx, NewCustomer{Tenant: c.Tenant, Name: c.TenantName}); err != nil {
		return "", s.Failed(ctx, "making tenant "+c.Tenant.String()+" known to the provider", err)
	}
	b := &pgx.Batch{}
	b.Queue(insertCustomer, c.Tenant, live, customer).Exec(pg.OrElse(errCustomerExists))
	s.note(b, c, "payment.customer", c.Tenant, s.Naming.Name(c.Tenant.String(), "", "tenant", c.Tenant.String()).String(), map[string]any{"customer": customer, "livemode": live})
	err = pg.Commit(ctx, s.DB, b, func() {})
	if errors.Is(err, errCustomerExists) {
		err = s.DB.QueryRow(ctx, selectCustomer, c.Tenant, live).Scan(&customer)
	}
	return customer, wrap("keeping who the tenant is to the provider", err)
}

// errCustomerExists: a concurrent request has created the customer first, and that customer stays.
var errCustomerExists = errors.New("the tenant is known to the provider")

var errUnanswered = errors.New("the same request has begun a session")

// initiate commits the session's row, or finds the one that the same request has
// begun and got no answer to.
func (s *Service) initiate(ctx context.Context, ch identity.Change[Session], drafted Session) (Session, error) {
	request := ch.Key.Hash()
	b := &pgx.Batch{}
	if request != nil {
		// One that would end too soon for the provider to open it is given up.
		b.Queue(abandonRequest, request, drafted.CreatedAt.Add(leastOpen))
	}
	b.Queue(insertSession, drafted.ID, drafted.Tenant, drafted.Principal, drafted.Amount, drafted.Currency, drafted.Customer, drafted.Livemode,
		request, drafted.CorrelationID, drafted.ExpiresAt, drafted.CreatedAt).Exec(pg.OrElse(errUnanswered))
	s.note(b, ch.Caller, "payment.begin", drafted.Tenant, drafted.URN(s.Naming),
		map[string]any{"amount_minor": drafted.Amount, "currency": drafted.Currency})
	err := pg.Commit(ctx, s.DB, b, func() {})
	if !errors.Is(err, errUnanswered) {
		return drafted, wrap("beginning a payment session", err)
	}
	begun, err := querySession(ctx, s.DB, selectUnanswered, request)
	switch {
	case errs.CodeOf(err) == errs.NotFound, err == nil && begun.URL != "": // it was answered meanwhile
		return Session{}, errs.New(errs.IdempotencyInFlight, "a request with this idempotency key is at work").Try("repeat it in a moment")
	case err == nil && begun.Amount != drafted.Amount:
		return Session{}, errs.New(errs.IdempotencyKeyReused, "this idempotency key was used with another amount").
			At("Idempotency-Key").Try("use a new key for a new request")
	}
	return begun, err
}

// opened stores the address of the payment page, with the response.
func (s *Service) opened(ctx context.Context, ch identity.Change[Session], begun Session, c Checkout) (Session, error) {
	begun.ProviderID, begun.URL, begun.Version = c.ID, c.URL, begun.Version+1
	if !c.ExpiresAt.IsZero() {
		begun.ExpiresAt = c.ExpiresAt
	}
	b := &pgx.Batch{}
	s.Identity.QueueKey(b, ch.Key, answer(ch, begun))
	b.Queue(openSession, begun.ID, begun.ProviderID, begun.URL, begun.ExpiresAt, begun.Version).Exec(pg.OrElse(
		errs.New(errs.Conflict, "this session was opened or ended meanwhile").Try("repeat it in a moment")))
	if err := pg.Commit(ctx, s.DB, b, func() { failpoint.Hit("payment.begin.before_commit") }); err != nil {
		return Session{}, err
	}
	failpoint.Hit("payment.begin.after_commit")
	return begun, nil
}

// Session reads one of the caller's tenant.
func (s *Service) Session(ctx context.Context, c identity.Caller, id ids.PaymentSession) (Session, error) {
	return querySession(ctx, s.DB, selectSession, id, c.Tenant)
}

// Sessions lists a tenant's, newest first, from the one after the given on.
func (s *Service) Sessions(ctx context.Context, tenant ids.Tenant, after ids.PaymentSession, limit int) ([]Session, error) {
	return list(ctx, s.DB, selectSessions, tenant, after, limit)
}

// Pending returns the amount that is paid and not credited yet: some payment methods need days.
func (s *Service) Pending(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (amount money.Minor, err error) {
	err = q.QueryRow(ctx, selectPending, tenant).Scan(&amount)
	return amount, wrap("summing pending payments", err)
}

// Portal makes a page of the provider on which the caller's tenant sees its cards
// and receipts. It leads back to a place of ours, by default to the balance. The stored response to an idempotency key is
// encrypted: who has the URL sees the cards.
func (s *Service) Portal(ctx context.Context, ch identity.Change[string], returnURL string) (url string, err error) {
	c := ch.Caller
	if err := s.on(); err != nil {
		return "", err
	}
	if returnURL, err = s.home(returnURL); err != nil {
		return "", err
	}
	customer, err := s.Customer(ctx, c)
	if err != nil {
		return "", err
	}
	if url, err = s.Provider.OpenPortal(ctx, customer, returnURL); err != nil {
		return "", s.Failed(ctx, "opening the provider's portal", err)
	}
	b := &pgx.Batch{}
	s.Identity.QueueKey(b, ch.Key, answer(ch, url))
	s.note(b, c, "payment.portal", c.Tenant, s.Naming.Name(c.Tenant.String(), "", "tenant", c.Tenant.String()).String(), map[string]any{"return_url": returnURL})
	if err := s.DB.SendBatch(ctx, b).Close(); err != nil {
		return "", fmt.Errorf("noting who opened the provider's portal: %w", err)
	}
	return url, nil
}

func scanSession(row pgx.CollectableRow) (s Session, err error) {
	err = row.Scan(&s.ID, &s.Tenant, &s.Principal, &s.Amount, &s.Currency, &s.State, &s.Reason, &s.Customer, &s.ProviderID, &s.Payment,
		&s.URL, &s.Livemode, &s.Mandate, &s.Month, &s.Number, &s.CorrelationID, &s.ExpiresAt, &s.CreatedAt, &s.StatusAt, &s.CheckedAt, &s.Version)
	s.ExpiresAt, s.CreatedAt, s.StatusAt = s.ExpiresAt.UTC(), s.CreatedAt.UTC(), s.StatusAt.UTC() // as it is answered
	return s, err
}

func querySession(ctx context.Context, q pg.Queryer, sql string, args ...any) (Session, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return Session{}, fmt.Errorf("reading a payment session: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanSession)
	if errors.Is(err, pgx.ErrNoRows) {
		return Session{}, errs.New(errs.NotFound, "no such payment session")
	}
	return found, wrap("reading a payment session", err)
}

func list(ctx context.Context, q pg.Queryer, sql string, args ...any) ([]Session, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("listing payment sessions: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanSession)
	return all, wrap("listing payment sessions", err)
}

// note queues the audit row of a change.
func (s *Service) note(b *pgx.Batch, by identity.Caller, action string, tenant ids.Tenant, urn string, after map[string]any) {
	audit.Queue(b, audit.Entry{Tenant: tenant, By: by.Cause(), Action: action, Target: urn, After: after})
}

func answer[T any](ch identity.Change[T], made T) identity.Reply {
	if ch.Key.Key == "" || ch.Answer == nil {
		return identity.Reply{}
	}
	return ch.Answer(made)
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
