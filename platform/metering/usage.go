package metering

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// By is the key by which usage is summed up.
type By string

// The first statement returns all columns of an allocation, the others only the key and the sums.
const (
	ByAllocation By = "allocation"
	ByProject    By = "project"
	BySKU        By = "sku"
	ByUser       By = "user"
	ByDay        By = "day" // of UTC
)

// Query selects the usage of a tenant in [From, To).
type Query struct {
	Tenant   ids.Tenant
	Project  ids.Project // zero: all
	From, To time.Time
	By       By
	After    string // the key of the last row of the previous page
	Limit    int
}

// Usage is the usage under one key. A credit counts in the period in which it was posted, as in the
// ledger.
type Usage struct {
	Key         string // an id, the SKU's name, or a day: 2026-11-22
	Currency    string
	Seconds     int64
	GPUSeconds  int64
	CostMinor   money.Minor // charged already or not yet
	CreditMinor money.Minor // of it, fault credits
	NetMinor    money.Minor
	GiBSeconds  int64 // of stored bytes, whose cost is included; none by allocation

	// Of an allocation alone.
	Allocation ids.Allocation
	Project    ids.Project
	User       ids.User // zero where it is not known
	SKU        string
	GPUs       int
	PriceMinor money.Minor // per GPU and hour, the last one
	StartedAt  time.Time
	EndedAt    *time.Time // nil while it is in use
}

// Usage lists the usage, sorted by key.
func (s *Service) Usage(ctx context.Context, q Query) ([]Usage, error) {
	sql, ok := selectUsage[q.By]
	if !ok {
		return nil, errs.Invalid("by", "use is summed up by allocation, project, sku, user or day, not by %q", q.By)
	}
	rows, err := s.DB.Query(ctx, sql, q.Tenant.UUID, q.From.Unix(), q.To.Unix(), projectOrNull(q.Project), q.After, q.Limit)
	if err != nil {
		return nil, fmt.Errorf("reading usage of tenant %s: %w", q.Tenant, err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Usage, error) { return scanUsage(row, q.By) })
	if err != nil {
		return nil, fmt.Errorf("reading usage of tenant %s: %w", q.Tenant, err)
	}
	return all, nil
}

// usagePage is some 4 MB. Each page sums up the whole period again, so they are few.
const usagePage = 10_000

// EachUsage shows do all of it, in the memory of one page. It ends with the first
// error of do.
func (s *Service) EachUsage(ctx context.Context, q Query, do func(Usage) error) error {
	q.Limit = usagePage
	for {
		list, err := s.Usage(ctx, q)
		if err != nil {
			return err
		}
		for _, u := range list {
			if err := do(u); err != nil {
				return err
			}
			q.After = u.Key
		}
		if len(list) < usagePage {
			return nil
		}
	}
}

func projectOrNull(p ids.Project) *uuid.UUID {
	if p == (ids.Project{}) {
		return nil
	}
	return &p.UUID
}

func scanUsage(row pgx.CollectableRow, by By) (u Usage, err error) {
	var of Usage
	var allocation, user *uuid.UUID // nil for stored bytes
	var start int64
	var end *int64
	err = row.Scan(&u.Key, &u.Currency, &u.Seconds, &u.GPUSeconds, &u.CostMinor, &u.CreditMinor, &u.GiBSeconds,
		&allocation, &of.Project.UUID, &user, &of.SKU, &of.GPUs, &of.PriceMinor, &start, &end)
	u.NetMinor = u.CostMinor - u.CreditMinor
	if err != nil || by != ByAllocation {
		return u, err
	}
	u.Allocation.UUID, u.Project, u.SKU, u.GPUs, u.PriceMinor, u.StartedAt = *allocation, of.Project, of.SKU, of.GPUs, of.PriceMinor, at(start)
	if user != nil {
		u.User.UUID = *user
	}
	if end != nil {
		ended := at(*end)
		u.EndedAt = &ended
	}
	return u, nil
}

// QueueCosts adds a read to b, of the cost of each allocation so far, charged or not, without fault credits. The map is
// filled when b is sent. An allocation that was never active is left out.
func QueueCosts(b *pgx.Batch, allocations []ids.Allocation) map[ids.Allocation]money.Minor {
	costs := map[ids.Allocation]money.Minor{}
	b.Queue(selectCosts, plain(allocations)).Query(func(rows pgx.Rows) error {
		var id ids.Allocation
		var cost money.Minor
		if _, err := pgx.ForEachRow(rows, []any{&id.UUID, &cost}, func() error {
			costs[id] = cost
			return nil
		}); err != nil {
			return fmt.Errorf("reading costs: %w", err)
		}
		return nil
	})
	return costs
}

func plain(allocations []ids.Allocation) []uuid.UUID {
	list := make([]uuid.UUID, len(allocations))
	for i, a := range allocations {
		list[i] = a.UUID
	}
	return list
}

// Burn returns the cost per hour of the tenant's open intervals and stored bytes.
func (s *Service) Burn(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (money.Minor, error) {
	var burn money.Minor
	if err := q.QueryRow(ctx, selectBurn, tenant.UUID).Scan(&burn); err != nil {
		return 0, fmt.Errorf("reading the burn of tenant %s: %w", tenant, err)
	}
	return burn, nil
}
