// Package gap lists the payments that the provider has received and that the database does not know. A restored database
// has lost them until the next sweep. The package credits nothing.
package gap

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// Payment is a payment or a refund that the database does not know.
type Payment struct {
	Event       string      `json:"event_id"`
	Type        string      `json:"type"`
	CreatedAt   time.Time   `json:"created_at"`
	Session     string      `json:"payment_session_id"` // of ours
	Payment     string      `json:"payment"`
	AmountMinor money.Minor `json:"amount_minor"`
	Currency    string      `json:"currency,omitempty"`
	// SessionLost reports that the database has lost the session, too. The sweep cannot credit the payment then.
	SessionLost bool `json:"session_lost"`
}

// maxListed limits the list. More payments are only counted.
const maxListed = 1000

// List is the response of the provider.
type List struct {
	QueriedAt time.Time `json:"queried_at"`
	Since     time.Time `json:"since"`
	Count     int       `json:"count"`
	Payments  []Payment `json:"payments"` // the first thousand
}

// Read queries the provider for payments since a time.
func Read(ctx context.Context, db pg.Queryer, provider payment.Provider, since, now time.Time) (List, error) {
	all := List{QueriedAt: now, Since: since, Payments: []Payment{}}
	err := provider.Events(ctx, since, func(page []payment.Event) error {
		found, err := unknown(ctx, db, page)
		all.Count += len(found)
		all.Payments = append(all.Payments, found[:min(len(found), maxListed-len(all.Payments))]...)
		return err
	})
	if err != nil {
		return List{}, fmt.Errorf("listing payments since %s: %w", since.UTC().Format(time.RFC3339), err)
	}
	return all, nil
}

// unknown returns the movements of money in a page of events that the database does not know.
func unknown(ctx context.Context, db pg.Queryer, page []payment.Event) ([]Payment, error) {
	events, sessions := []string{}, []uuid.UUID{}
	for _, e := range page {
		events = append(events, e.ID)
		if id, err := uuid.Parse(movementOf(e).Session); err == nil {
			sessions = append(sessions, id)
		}
	}
	stored, err := pg.List(ctx, db, "stored events", selectStored, pgx.RowTo[string], events)
	if err != nil {
		return nil, err
	}
	present, err := pg.List(ctx, db, "stored sessions", selectSessions, pgx.RowTo[string], sessions)
	if err != nil {
		return nil, err
	}
	is := map[string]bool{}
	for _, id := range append(stored, present...) {
		is[id] = true
	}
	var all []Payment
	for _, e := range page {
		p := movementOf(e)
		if p.Payment == "" || is[e.ID] {
			continue
		}
		p.SessionLost = p.Session != "" && !is[p.Session]
		all = append(all, p)
	}
	return all, nil
}

// movementOf returns the movement of money that an event reports; its payment is empty if there is none.
func movementOf(e payment.Event) Payment {
	p := Payment{Event: e.ID, Type: e.Type, CreatedAt: e.CreatedAt}
	switch c, r := e.Payload.Checkout, e.Payload.Refund; {
	case c != nil && c.Paid == payment.PaidYes:
		p.Session, p.Payment, p.AmountMinor, p.Currency = c.Session, c.Payment, c.Amount, c.Currency
		if p.Session == "" {
			p.Session = c.Reference
		}
	case r != nil:
		p.Payment, p.AmountMinor = r.Payment, r.Amount
	}
	return p
}
