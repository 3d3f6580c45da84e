package gap

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/payment"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"stripe_events", "payment_sessions"}, map[string]string{"selectStored": selectStored, "selectSessions": selectSessions})
}

// provider lists two pages, and may fail after them.
type provider struct {
	payment.Provider

	pages [][]payment.Event
	since time.Time
	err   error
}

func (p *provider) Events(_ context.Context, since time.Time, page func([]payment.Event) error) error {
	p.since = since
	for _, events := range p.pages {
		if err := page(events); err != nil {
			return err
		}
	}
	return p.err
}

func paid(event, session string, amount money.Minor) payment.Event {
	return payment.Event{ID: event, Type: "checkout.session.completed", Payload: payment.EventPayload{Checkout: &payment.Checkout{
		Session: session, Payment: "pi_" + event, Amount: amount, Currency: "EUR", Paid: payment.PaidYes,
	}}}
}

// INV-63: the list has the payments that the database does not know, once each, and marks those whose session it has lost. What it knows, and
// what moves no money, is not in it.
func TestINV63TheListHasWhatTheDatabaseHasLost(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	present, lost := uuid.New(), uuid.New()
	if _, err := db.Exec(t.Context(), `
		INSERT INTO payment_sessions (id, org_id, principal, amount_minor, currency, status, livemode, created_at, expires_at)
		VALUES ($1, gen_random_uuid(), gen_random_uuid(), 500, 'EUR', 'initiated', false, now(), now())`, present); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `
		INSERT INTO stripe_events (event_id, type, api_version, account, livemode, object_id, body, payload, source, created_at)
		VALUES ('evt_old', 'checkout.session.completed', '', '', false, 'cs_0', '', '{}', 'webhook', now())`); err != nil {
		t.Fatal(err)
	}
	open := paid("evt_open", present.String(), 500)
	open.Payload.Checkout.Paid = payment.PaidLater
	p := &provider{pages: [][]payment.Event{
		{paid("evt_old", present.String(), 500), open, paid("evt_1", present.String(), 500)},
		{paid("evt_2", lost.String(), 700), {ID: "evt_3", Type: "refund.updated", Payload: payment.EventPayload{Refund: &payment.Refunded{Payment: "pi_9", Amount: 3}}}},
	}}
	since := time.Now().Add(-time.Hour)
	all, err := Read(t.Context(), db, p, since, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if all.Count != 3 || len(all.Payments) != 3 || !p.since.Equal(since) {
		t.Fatalf("%+v", all)
	}
	for i, want := range []Payment{
		{Event: "evt_1", Session: present.String(), Payment: "pi_evt_1", AmountMinor: 500, Currency: "EUR"},
		{Event: "evt_2", Session: lost.String(), Payment: "pi_evt_2", AmountMinor: 700, Currency: "EUR", SessionLost: true},
		{Event: "evt_3", Payment: "pi_9", AmountMinor: 3},
	} {
		want.Type = all.Payments[i].Type
		if all.Payments[i] != want {
			t.Errorf("%+v, want %+v", all.Payments[i], want)
		}
	}
	p.err = errors.New("away")
	if _, err := Read(t.Context(), db, p, since, time.Now()); !errors.Is(err, p.err) {
		t.Errorf("a provider that fails: %v", err)
	}
}
