package billing

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// Adjustment is a correction of a tenant's balance by a person.
type Adjustment struct {
	Transfer    uuid.UUID
	Tenant      ids.Tenant
	User        ids.User    // the user in the request
	AmountMinor money.Minor // below zero for a debit
	Currency    string
	Reason      string
}

// maxAdjustment is a thousand times the largest payment. A larger amount is a typing error, and the sum
// of many maximum adjustments cannot overflow a balance.
const maxAdjustment money.Minor = 1e11

const maxReason = 512

// Adjust credits or debits the balance of a user's tenant. The caller must be able to see all tenants.
func (s *Service) Adjust(ctx context.Context, ch identity.Change[Adjustment], user ids.User, amount money.Minor, reason string) (Adjustment, error) {
	a, err := s.draftAdjustment(ctx, user, amount, reason)
	if err != nil {
		return Adjustment{}, err
	}
	by := ch.Caller
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		s.Identity.QueueKey(b, ch.Key, reply(ch, a))
		// The tenant's, not the caller's: who creates meanwhile counts on its balance.
		identity.QueueLock(b, identity.Caller{Tenant: a.Tenant, User: user})
		ledger.QueueTransfer(b, a.transfer(), nil)
		audit.Queue(b, audit.Entry{
			Tenant: a.Tenant, By: by.Cause(), Action: "balance.adjust", Target: s.urn(a.Tenant),
			After: map[string]any{"amount_minor": amount, "currency": a.Currency, "reason": a.Reason, "transfer_id": a.Transfer, "user_id": user},
		})
		event.Queue(b, s.adjusted(a, by))
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		return s.queueCheck(ctx, tx, a.Tenant)
	})
	if err != nil {
		return Adjustment{}, err
	}
	s.Hints.Send(event.Topic)
	return a, nil
}

// queueCheck queues a check of the tenant's balance notices, which runs after the commit of tx.
func (s *Service) queueCheck(ctx context.Context, tx pgx.Tx, tenant ids.Tenant) error {
	if s.Jobs == nil {
		return nil
	}
	if _, err := s.Jobs.InsertTx(ctx, tx, ledger.CheckRunway{Tenant: tenant.UUID}, nil); err != nil {
		return fmt.Errorf("queueing a check of the balance: %w", err)
	}
	return nil
}

// draftAdjustment validates the request and reads the tenant of the user. It changes nothing.
func (s *Service) draftAdjustment(ctx context.Context, user ids.User, amount money.Minor, reason string) (Adjustment, error) {
	reason = strings.TrimSpace(reason)
	switch {
	case amount == 0:
		return Adjustment{}, errs.Invalid("amount_minor", "must not be zero")
	case amount > maxAdjustment || amount < -maxAdjustment:
		return Adjustment{}, errs.Invalid("amount_minor", "must be between %d and %d", -maxAdjustment, maxAdjustment)
	case reason == "":
		return Adjustment{}, errs.Invalid("reason", "is required")
	case utf8.RuneCountInString(reason) > maxReason || strings.ContainsFunc(reason, unicode.IsControl):
		return Adjustment{}, errs.Invalid("reason", "must be one line of at most %d characters", maxReason)
	}
	u, err := s.Identity.UserByID(ctx, user)
	if errs.CodeOf(err) == errs.NotFound {
		return Adjustment{}, errs.New(errs.UserNotFound, "no such user")
	}
	if err != nil {
		return Adjustment{}, err
	}
	if u.Tenant == (ids.Tenant{}) {
		return Adjustment{}, errs.New(errs.Conflict, "the user has no tenant, and so no balance").Try("give them a tenant first")
	}
	tenant, err := s.Identity.TenantByID(ctx, u.Tenant)
	if err != nil {
		return Adjustment{}, err
	}
	return Adjustment{
		Transfer: uuid.Must(uuid.NewV7()), Tenant: tenant.ID, User: user, AmountMinor: amount, Currency: tenant.Currency, Reason: reason,
	}, nil
}

// transfer moves a positive amount; the sign of the adjustment decides the direction.
func (a Adjustment) transfer() ledger.Transfer {
	t := ledger.Transfer{
		ID: a.Transfer, Kind: ledger.Adjustment, Reference: a.Transfer.String(), From: ledger.Adjustments, To: ledger.BalanceOf(a.Tenant),
		Amount: a.AmountMinor, Currency: a.Currency, Note: a.Reason,
	}
	if a.AmountMinor < 0 {
		t.From, t.To, t.Amount = t.To, t.From, -a.AmountMinor
	}
	return t
}

// adjusted is the fact. Its aggregate is the transfer: the tenant's own sequence
// is the workers' to count.
func (s *Service) adjusted(a Adjustment, by identity.Caller) event.Draft {
	return event.Draft{
		Stream: event.StreamBilling, Subject: SubjectAdjusted, Aggregate: "transfer:" + a.Transfer.String(), Sequence: 1,
		Tenant: a.Tenant, URN: s.urn(a.Tenant), CorrelationID: by.CorrelationID, Trace: by.Trace,
		Payload: AdjustedEvent{
			Transfer: a.Transfer.String(), User: a.User.String(), AmountMinor: a.AmountMinor, Currency: a.Currency,
			Reason: a.Reason, AdjustedBy: by.Actor(),
		},
	}
}
