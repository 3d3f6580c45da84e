package allocation

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// Preview contains the cost of a request, and every rule that rejects it.
type Preview struct {
	Allocation Allocation  // as it would be requested, without a node
	PerHour    money.Minor // of this request
	Burn       money.Minor // per hour, with all other allocations of the tenant
	Balance    ledger.Balance
	Remaining  [3]int // allocations that the user, the project and the tenant may still request
	Rejections []*errs.Error
}

// Preview evaluates a request without writing anything. The catalogue and the request itself are checked
// first: without a price no other check has a meaning.
func (s *Service) Preview(ctx context.Context, r Request) (Preview, error) {
	limits := s.Limits(r.Caller)
	offer, err := s.Catalog.ActiveSKU(ctx, r.SKU)
	if err != nil {
		return Preview{}, err
	}
	p := Preview{}
	if p.Allocation, err = s.draft(ctx, r, offer, limits); err != nil {
		return Preview{}, err
	}
	if p.PerHour, err = p.Allocation.perHour(0); err != nil {
		return Preview{}, err
	}
	checks := []func() error{
		func() error { return s.budget(ctx, r.Caller, p.Allocation.CreatedAt, limits) },
		func() error {
			_, err := keys.AuthorizedKeys(ctx, s.DB, r.Caller, r.SSHKeys)
			return err
		},
	}
	have, err := s.liveOf(ctx, p.Allocation, &p.Balance)
	if err != nil {
		return Preview{}, err
	}
	p.Remaining = [3]int{max(0, limits.PerUser-have.user), max(0, limits.PerProject-have.project), max(0, limits.PerTenant-have.tenant)}
	if p.Burn, err = p.Allocation.perHour(have.tenantBurn); err != nil {
		return Preview{}, err
	}
	checks = append(checks,
		func() error { return have.count(limits) },
		func() error { return have.afford(p.Allocation, limits) },
		func() error { return have.pay(p.Allocation, limits, p.Balance) },
	)
	for _, check := range checks {
		if err := check(); err != nil {
			rejected, coded := errors.AsType[*errs.Error](err)
			if !coded {
				return Preview{}, err
			}
			p.Rejections = append(p.Rejections, rejected)
		}
	}
	return p, nil
}

// Runway returns how long the balance lasts with this request. It is zero without a balance.
func (p Preview) Runway() time.Duration {
	seconds, _ := money.Lasts(p.Balance.Minor, p.Burn)
	return time.Duration(max(seconds, 0)) * time.Second
}

// liveOf counts the live allocations that a request would add to, and reads the balance.
func (s *Service) liveOf(ctx context.Context, a Allocation, balance *ledger.Balance) (have live, err error) {
	b := &pgx.Batch{}
	b.Queue(countLive, a.Tenant, a.User, a.Project).QueryRow(func(row pgx.Row) error {
		return row.Scan(&have.user, &have.project, &have.tenant, &have.projectBurn, &have.tenantBurn)
	})
	ledger.QueueFunds(b, a.Tenant, func(read ledger.Balance) error {
		*balance = read
		return nil
	})
	return have, s.DB.SendBatch(ctx, b).Close()
}
