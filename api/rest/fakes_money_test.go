package rest_test

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// meter measured one allocation.
type meter struct{ rest.Metering }

var used = metering.Usage{
	Allocation: ids.New[ids.Allocation](), Project: ids.New[ids.Project](), SKU: h100.Name, GPUs: 2, PriceMinor: 289, Currency: "EUR",
	Key: "h100-sxm", Seconds: 600, CostMinor: 96, NetMinor: 96, StartedAt: t0,
}

func (meter) Usage(context.Context, metering.Query) ([]metering.Usage, error) {
	return []metering.Usage{used}, nil
}

var interval = metering.Record{
	ID: uuid.Must(uuid.NewV7()), Allocation: used.Allocation, Project: used.Project, SKU: used.SKU, GPUs: 2, PriceMinor: 289, Currency: "EUR",
	StartedAt: t0, OpenedBy: metering.ObservedReady, OpenedSeen: json.RawMessage(`{"fence":1}`), Seconds: 600, CostMinor: 96,
}

func (meter) Intervals(context.Context, ids.Tenant, metering.Filter) ([]metering.Record, error) {
	return []metering.Record{interval}, nil
}

func (meter) EachInterval(_ context.Context, _ ids.Tenant, _ metering.Filter, do func(metering.Record) error) error {
	return do(interval)
}

func (meter) CostOf(_ context.Context, of []ids.Allocation) (map[ids.Allocation]money.Minor, error) {
	return map[ids.Allocation]money.Minor{of[0]: 96}, nil
}

func (meter) SpentSince(context.Context, pg.Queryer, ids.Tenant, ids.Project, time.Time) (money.Minor, error) {
	return 96, nil
}

// purse has one entry of each sign, and texts that a spreadsheet would run.
type purse struct{}

var entries = []ledger.Entry{
	{ID: 1, At: t0, Transfer: uuid.Must(uuid.NewV7()), Kind: ledger.TopUp, Reference: "pi_1", AmountMinor: 99000, Currency: "EUR"},
	{ID: 2, At: t0, Transfer: uuid.Must(uuid.NewV7()), Kind: ledger.Usage, Reference: "1767603900", AmountMinor: -96, Currency: "EUR", Allocation: &used.Allocation},
	{ID: 3, At: t0, Transfer: uuid.Must(uuid.NewV7()), Kind: ledger.Adjustment, Reference: "@x", Note: "=HYPERLINK(1)", AmountMinor: -1, Currency: "EUR"},
}

func (purse) Balance(context.Context, pg.Queryer, ids.Tenant) (money.Minor, string, error) {
	return 98903, "EUR", nil
}

func (purse) Entries(_ context.Context, _ ids.Tenant, f ledger.Filter) (list []ledger.Entry, _ error) {
	for _, e := range entries {
		if e.ID > f.After && len(list) < f.Limit && (f.Kind == "" || f.Kind == e.Kind) {
			list = append(list, e)
		}
	}
	return list, nil
}

func (p purse) EachEntry(ctx context.Context, tenant ids.Tenant, f ledger.Filter, do func(ledger.Entry) error) error {
	f.Limit = len(entries)
	list, err := p.Entries(ctx, tenant, f)
	for _, e := range list {
		if err := do(e); err != nil {
			return err
		}
	}
	return err
}

// office keeps the same books as purse.
type office struct{}

func (office) Status(context.Context, pg.Queryer, ids.Tenant) (billing.Status, error) {
	return billing.Status{
		BalanceMinor: 98903, Currency: "EUR", BurnMinor: 578, RunwaySeconds: new(int64(616011)), ThresholdMinor: 1000, SpentMonthMinor: 96,
	}, nil
}

func (office) Limits(_ context.Context, _ identity.Caller, project ids.Project) (billing.LimitsView, error) {
	return billing.LimitsView{Project: project, EffectiveHourlyMinor: 8000, Currency: "EUR", Version: 1}, nil
}

func (office) SetLimits(_ context.Context, _ identity.Change[billing.LimitsView], project ids.Project, version int64, set billing.Limits) (billing.LimitsView, error) {
	if version > 1 {
		return billing.LimitsView{}, errs.New(errs.VersionMismatch, "this is version 1")
	}
	return billing.LimitsView{Project: project, Limits: set, Currency: "EUR", Version: 2}, nil
}

func (office) Adjust(_ context.Context, ch identity.Change[billing.Adjustment], user ids.User, amount money.Minor, reason string) (billing.Adjustment, error) {
	return billing.Adjustment{Transfer: uuid.Must(uuid.NewV7()), Tenant: ch.Caller.Tenant, User: user, AmountMinor: amount, Currency: "EUR", Reason: reason}, nil
}

var january = billing.Totals{
	From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), Currency: "EUR",
	TopUps: 99000, Usage: -96, Adjustments: -1, Closing: 98903,
}

func (office) Months(_ context.Context, _ ids.Tenant, before time.Time, _ int) ([]billing.Totals, error) {
	if !before.IsZero() {
		return nil, nil
	}
	return []billing.Totals{january}, nil
}

func (office) Statement(_ context.Context, tenant ids.Tenant, month time.Time) (billing.Statement, error) {
	if !month.Equal(january.From) {
		return billing.Statement{}, errs.New(errs.NotFound, "no statement of this month")
	}
	return billing.Statement{
		Totals: january, Tenant: identity.Tenant{ID: tenant, Name: "<dev>"}, Uses: []billing.Use{{Usage: used, ProjectName: "=1+1"}},
		Movements: []ledger.Entry{entries[0], entries[2]},
	}, nil
}

// till knows one payment, and one right signature.
type till struct {
	rest.Payments // what no test asks

	mu       sync.Mutex
	received [][]byte
	states   payment.State // of the payment; credited when empty
}

const (
	signedEvent    = `{"id":"evt_1"}`
	rightSignature = "t=1,v1=right"
)

var paid = payment.Session{
	ID: ids.New[ids.PaymentSession](), Amount: 5000, Currency: "EUR", State: payment.Credited, Principal: users[tokenOwner].UUID,
	CreatedAt: t0, ExpiresAt: t0.Add(time.Hour), StatusAt: t0.Add(time.Minute),
}

func (t *till) session() payment.Session {
	p := paid
	if t.states != "" {
		p.State = t.states
	}
	if p.State == payment.Initiated {
		p.URL = "https://pay.example/c/cs_1"
	}
	return p
}

func (t *till) Begin(_ context.Context, ch identity.Change[payment.Session], amount money.Minor) (payment.Session, error) {
	if amount > 500000 {
		return payment.Session{}, errs.New(errs.PaymentAmountOutOfRange, "a top-up is between 500 and 500000 minor units").At("amount_minor")
	}
	p := paid
	p.Tenant, p.Amount, p.State, p.URL = ch.Caller.Tenant, amount, payment.Initiated, "https://pay.example/c/cs_1"
	return p, nil
}

func (t *till) Portal(context.Context, identity.Caller, string) (string, error) {
	return "https://pay.example/p/bps_1", nil
}

func (t *till) Session(_ context.Context, c identity.Caller, id ids.PaymentSession) (payment.Session, error) {
	if id != paid.ID || c.Tenant == (ids.Tenant{}) {
		return payment.Session{}, errs.New(errs.NotFound, "no such payment session")
	}
	return t.session(), nil
}

func (t *till) Sessions(_ context.Context, _ ids.Tenant, after ids.PaymentSession, _ int) ([]payment.Session, error) {
	if after != (ids.PaymentSession{}) {
		return nil, nil
	}
	return []payment.Session{t.session()}, nil
}

func (t *till) AllSessions(ctx context.Context, f payment.Filter, after ids.PaymentSession, limit int) ([]payment.Session, error) {
	return t.Sessions(ctx, f.Tenant, after, limit)
}

func (t *till) Credits(_ context.Context, of []payment.Session) (map[ids.PaymentSession]payment.Credit, error) {
	return map[ids.PaymentSession]payment.Credit{of[0].ID: {Transfer: entries[0].Transfer, At: t0}}, nil
}

func (t *till) Reconcile(context.Context, identity.Change[payment.Session], ids.PaymentSession) (payment.Session, error) {
	return t.session(), nil
}

func (t *till) Pending(context.Context, pg.Queryer, ids.Tenant) (money.Minor, error) { return 0, nil }

func (t *till) Refund(_ context.Context, ch identity.Change[payment.Refund], r payment.RefundRequest) (payment.Refund, error) {
	return payment.Refund{
		ID: ids.New[ids.Refund](), Tenant: ch.Caller.Tenant, User: r.User, RequestedBy: ch.Caller.Actor(), Kind: r.Kind, Route: payment.ToLedger,
		Amount: r.Amount, Currency: "EUR", Reason: r.Reason, State: payment.Succeeded, Transfer: uuid.Must(uuid.NewV7()), CreatedAt: t0, SettledAt: &t0,
	}, nil
}

func (t *till) Refunds(context.Context, ids.Tenant, ids.Refund, int) ([]payment.Refund, error) {
	return nil, nil
}

// Receive takes what is not signed as well where no signature is sent, which only
// the tests of all operations do.
func (t *till) Receive(_ context.Context, body []byte, signature string) error {
	if signature != rightSignature && signature != "" {
		return errs.New(errs.SignatureInvalid, "the signature does not match the body")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.received = append(t.received, body)
	return nil
}
