package identity

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// Tenant owns: balance, projects, people.
type Tenant struct {
	ID             ids.Tenant
	Name, Currency string
	Version        int64
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

func (t Tenant) ref() Resource {
	return Resource{Tenant: t.ID, Kind: "tenant", ID: t.ID.String()}
}

// Tenant reads the caller's.
func (s *Service) Tenant(ctx context.Context, c Caller) (Tenant, error) {
	return s.TenantByID(ctx, c.Tenant)
}

// TenantByID reads any, for the platform.
func (s *Service) TenantByID(ctx context.Context, id ids.Tenant) (Tenant, error) {
	return pg.One(ctx, s.DB, "tenant", selectTenant, scanTenant, id)
}

// Tenants lists all by name, for the platform.
func (s *Service) Tenants(ctx context.Context, after string, limit int) ([]Tenant, error) {
	return pg.List(ctx, s.DB, "tenants", selectTenants, scanTenant, after, limit)
}

// TenantNames reads the names of many at once. One that is unknown is left out.
func (s *Service) TenantNames(ctx context.Context, q pg.Queryer, tenants []ids.Tenant) (map[ids.Tenant]string, error) {
	which := make([]uuid.UUID, len(tenants))
	for i, t := range tenants {
		which[i] = t.UUID
	}
	rows, err := q.Query(ctx, selectTenantNames, which)
	if err != nil {
		return nil, fmt.Errorf("reading names of tenants: %w", err)
	}
	names := make(map[ids.Tenant]string, len(tenants))
	var tenant ids.Tenant
	var name string
	_, err = pgx.ForEachRow(rows, []any{&tenant.UUID, &name}, func() error {
		names[tenant] = name
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading names of tenants: %w", err)
	}
	return names, nil
}

func scanTenant(row pgx.CollectableRow) (t Tenant, err error) {
	err = row.Scan(&t.ID, &t.Name, &t.Currency, &t.Version, &t.CreatedAt, &t.UpdatedAt)
	return t, err
}

// firstProject is the name of the first project of a new tenant.
const firstProject = "default"

// CreateTenant makes a tenant with one project and without people.
func (s *Service) CreateTenant(ctx context.Context, ch Change[Tenant], name, in string) (Tenant, error) {
	if err := checkTenantName(name); err != nil {
		return Tenant{}, err
	}
	if !currency.MatchString(in) {
		return Tenant{}, errs.Invalid("currency", "must be three capital letters, such as EUR")
	}
	return ch.Apply(ctx, s, func() (Tenant, func(*pgx.Batch), error) {
		t := Tenant{ID: ids.New[ids.Tenant](), Name: name, Currency: in, Version: 1, CreatedAt: s.Now()}
		t.UpdatedAt = t.CreatedAt
		return t, func(b *pgx.Batch) {
			b.Queue(insertTenant, t.ID, t.Name, t.Currency, t.CreatedAt).Exec(pg.OrElse(errs.New(errs.AlreadyExists, "a tenant with this name exists").At("name").Try("choose another name")))
			b.Queue(insertProject, ids.New[ids.Project](), t.ID, firstProject, "", t.CreatedAt)
			s.Note(b, ch.Caller, "tenant.create", t.ref(), nil, audit.Fields{"name": t.Name, "currency": t.Currency})
		}, nil
	})
}

// UpdateTenant renames the caller's tenant.
func (s *Service) UpdateTenant(ctx context.Context, ch Change[Tenant], version int64, name string) (Tenant, error) {
	if err := checkTenantName(name); err != nil {
		return Tenant{}, err
	}
	return ch.Apply(ctx, s, func() (Tenant, func(*pgx.Batch), error) {
		t, err := s.Tenant(ctx, ch.Caller)
		if err != nil {
			return t, nil, err
		}
		if err := CheckVersion(version, t.Version); err != nil || t.Name == name {
			return t, nil, err
		}
		was := t
		t.Name, t.Version, t.UpdatedAt = name, t.Version+1, s.Now()
		return t, func(b *pgx.Batch) {
			b.Queue(updateTenant, t.ID, was.Version, t.Name, t.UpdatedAt).Exec(pg.OrElse(ErrRaced))
			s.Note(b, ch.Caller, "tenant.update", t.ref(), audit.Fields{"name": was.Name}, audit.Fields{"name": t.Name})
		}, nil
	})
}

// CheckCurrency rejects an amount of a tenant in another currency. Without a currency the amount is in that of the tenant.
func (s *Service) CheckCurrency(ctx context.Context, tenant ids.Tenant, currency *string) error {
	if currency == nil {
		return nil
	}
	t, err := s.TenantByID(ctx, tenant)
	if err == nil && t.Currency != *currency {
		err = errs.Invalid("currency", "is %s, and the currency of the tenant is %s", *currency, t.Currency).Try("convert the amount, or leave the currency out")
	}
	return err
}

// CheckCurrencyOf is CheckCurrency for the tenant of a user. The operation itself rejects a user without a tenant.
func (s *Service) CheckCurrencyOf(ctx context.Context, user ids.User, currency *string) error {
	if currency == nil {
		return nil
	}
	u, err := s.UserByID(ctx, user)
	if errs.CodeOf(err) == errs.NotFound || err == nil && u.Tenant == (ids.Tenant{}) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.CheckCurrency(ctx, u.Tenant, currency)
}
