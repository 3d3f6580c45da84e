package payment

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Filter narrows a list of all tenants' sessions; empty fields let all pass.
type Filter struct {
	Tenant ids.Tenant
	// Status is a State, or StuckStatus.
	Status string
}

// StuckStatus selects the sessions and refunds that need an operator: those with an unexpected result,
// and those that are overdue.
const StuckStatus = "stuck"

// AllSessions lists them, newest first, from the one after the given on.
func (s *Service) AllSessions(ctx context.Context, f Filter, after ids.PaymentSession, limit int) ([]Session, error) {
	return list(ctx, s.DB, selectAllSessions, f.Status, after, f.Tenant, limit)
}

// Credit is the credit that a session has led to.
type Credit struct {
	Transfer uuid.UUID // on the ledger
	At       time.Time
	Refunded money.Minor // of it, refunded
}

// Credits reads those of many sessions at once. One that brought nothing is left out.
func (s *Service) Credits(ctx context.Context, of []Session) (map[ids.PaymentSession]Credit, error) {
	credits := map[ids.PaymentSession]Credit{}
	var which []uuid.UUID
	for _, one := range of {
		if one.State == Credited {
			which = append(which, one.ID.UUID)
		}
	}
	if len(which) == 0 {
		return credits, nil
	}
	rows, err := s.DB.Query(ctx, selectCredits, which)
	if err != nil {
		return nil, fmt.Errorf("reading credits: %w", err)
	}
	var id ids.PaymentSession
	var c Credit
	_, err = pgx.ForEachRow(rows, []any{&id.UUID, &c.Transfer, &c.At, &c.Refunded}, func() error {
		credits[id] = c
		return nil
	})
	return credits, wrap("reading credits", err)
}
