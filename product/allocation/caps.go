package allocation

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// live is the number of a tenant's live allocations, active or not yet, and the cost per hour of these and of its stored files.
type live struct {
	user, project, tenant   int
	projectBurn, tenantBurn money.Minor
}

// queueCaps counts the live allocations. One more must exceed no cap, no spend limit and not the balance.
func queueCaps(b *pgx.Batch, a Allocation, l Limits) {
	var have, stored live // stored: the cost of stored files
	metering.QueueStorageBurns(b, a.Tenant, a.Project, &stored.projectBurn, &stored.tenantBurn)
	b.Queue(countLive, a.Tenant, a.User, a.Project).QueryRow(func(row pgx.Row) error {
		if err := row.Scan(&have.user, &have.project, &have.tenant, &have.projectBurn, &have.tenantBurn); err != nil {
			return fmt.Errorf("counting allocations: %w", err)
		}
		have.projectBurn, have.tenantBurn = have.projectBurn+stored.projectBurn, have.tenantBurn+stored.tenantBurn
		if err := have.count(l); err != nil {
			return err
		}
		return have.afford(a, l)
	})
	ledger.QueueFunds(b, a.Tenant, func(balance ledger.Balance) error { return have.pay(a, l, balance) })
}

func (h live) count(l Limits) error {
	for _, c := range []struct {
		whose     string
		have, cap int
	}{{"user", h.user, l.PerUser}, {"project", h.project, l.PerProject}, {"tenant", h.tenant, l.PerTenant}} {
		if c.have >= c.cap {
			return errs.New(errs.ConcurrencyLimitReached, "the %s already has %d of %d allocations", c.whose, c.have, c.cap).
				Try("release an allocation, or request a higher limit from an operator").With("scope", c.whose).With("limit", c.cap)
		}
	}
	return nil
}

// perHour returns the cost per hour of an allocation and of those that run already.
func (a Allocation) perHour(with money.Minor) (money.Minor, error) {
	own, err := money.Due(a.PriceMinor, int64(a.GPUs), int64(time.Hour/time.Second))
	if err == nil {
		own, err = money.Add(own, with)
	}
	if err != nil {
		return 0, errs.Invalid("gpus", "this would cost more than can be counted").Because(err)
	}
	return own, nil
}

// afford compares the cost per hour of all allocations with the spend limits.
func (h live) afford(a Allocation, l Limits) error {
	for _, c := range []struct {
		whose       string
		burn, limit money.Minor
	}{{"project", h.projectBurn, l.HourlyProject}, {"tenant", h.tenantBurn, l.HourlyTenant}} {
		would, err := a.perHour(c.burn)
		if err != nil {
			return err
		}
		if c.limit > 0 && would > c.limit {
			return errs.New(errs.SpendLimitExceeded, "with this the %s would spend %s an hour, and its limit is %s",
				c.whose, money.Format(a.Currency, would), money.Format(a.Currency, c.limit)).
				Try("release an allocation, request fewer GPUs, or have the limit raised").
				With("scope", c.whose).With("limit", "hourly_spend_limit_minor").With("limit_minor", c.limit).With("would_be_minor", would)
		}
	}
	return nil
}

// pay compares the cost of all allocations with the balance, which must cover it for the minimum runway.
func (h live) pay(a Allocation, l Limits, balance ledger.Balance) error {
	burn, err := a.perHour(h.tenantBurn)
	if err != nil {
		return err
	}
	need, err := money.Due(burn, 1, int64(l.MinimumRunway/time.Second))
	switch {
	case err != nil:
		return errs.Invalid("gpus", "this would cost more than can be counted").Because(err)
	case balance.Minor <= 0:
		return errs.New(errs.InsufficientBalance, "the balance is used up").Try("add credit").
			With("balance_minor", balance.Minor).With("needed_minor", max(need, 1)).With("currency", a.Currency)
	case balance.Currency != a.Currency:
		return errs.Invalid("sku", "has its price in %s, but the balance is in %s", a.Currency, balance.Currency).
			Try("choose a SKU that is priced in %s", balance.Currency).
			With("price_currency", a.Currency).With("balance_currency", balance.Currency)
	case balance.Minor < need:
		lasts, _ := money.Lasts(balance.Minor, burn)
		return errs.New(errs.RunwayTooShort, "the balance would last %d minutes, and must last %d", lasts/60, int64(l.MinimumRunway/time.Minute)).
			Try("top up the balance, release an allocation, or request fewer GPUs").
			With("balance_minor", balance.Minor).With("needed_minor", need).With("burn_per_hour_minor", burn).With("currency", a.Currency)
	}
	return nil
}

// budget compares the cost of the month with the budgets. It runs before the transaction, because the
// cost grows with time and not with the new allocation.
func (s *Service) budget(ctx context.Context, c identity.Caller, now time.Time, l Limits) error {
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	for _, b := range []struct {
		whose   string
		project ids.Project
		budget  money.Minor
	}{{"project", c.Project, l.MonthlyProject}, {"tenant", ids.Project{}, l.MonthlyTenant}} {
		if b.budget <= 0 {
			continue
		}
		spent, err := s.Metering.SpentSince(ctx, s.DB, c.Tenant, b.project, month)
		if err != nil {
			return err
		}
		if spent >= b.budget {
			return errs.New(errs.SpendLimitExceeded, "the %s has used up its budget of this month", b.whose).
				Try("wait for the next month, or have the budget raised").
				With("scope", b.whose).With("limit", "monthly_budget_minor").With("limit_minor", b.budget).With("spent_minor", spent)
		}
	}
	return nil
}
