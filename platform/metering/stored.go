package metering

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// The amount due for stored bytes is ⌊price × byte-seconds ÷ (GiB × 720 hours)⌋. Only the bytes above the free ones count.
const (
	// GiB is the unit of prices of stored bytes.
	GiB = 1 << 30
	// StorageHours are the hours of a price of stored bytes.
	StorageHours = 720
)

// Stored is a change of the stored bytes of a project.
type Stored struct {
	Tenant  ids.Tenant
	Project ids.Project
	Bytes   int64 // added; below zero if they are removed
	Wanted  int64 // bytes for which the tenant needs a balance; at most zero if it needs none
}

// QueueStored meters a change in the caller's transaction, which fails if the tenant wants more bytes and cannot pay them.
// The caller has locked the stored bytes of the project, and locks nothing afterwards: the end of a tick waits for its
// transaction.
func QueueStored(b *pgx.Batch, c Stored) {
	b.Queue(storeBytes, c.Tenant, c.Project, c.Bytes, c.Wanted).QueryRow(func(row pgx.Row) error {
		var poor bool
		var balance *money.Minor
		var currency string
		if err := row.Scan(&poor, &balance, &currency); err != nil {
			return c.failed(err)
		}
		if !poor {
			return nil
		}
		if balance == nil {
			balance = new(money.Minor)
		}
		return errs.New(errs.InsufficientBalance, "the balance is used up, so no more bytes can be stored").Try("add credit, or delete files for good").
			With("balance_minor", *balance).With("currency", currency)
	})
}

// failed gives the rejection of another currency its code.
func (c Stored) failed(err error) error {
	if rejected, is := errors.AsType[*pgconn.PgError](err); is && rejected.Code == "23514" && rejected.ConstraintName == "" {
		return errs.New(errs.Conflict, "the price of storage is in another currency than the balance of this tenant").Try("contact an operator").Because(err)
	}
	return fmt.Errorf("metering the stored bytes of %s: %w", c.Project, err)
}

// StoragePrice is the price of stored bytes. The zero value is that of an environment without a storage class.
type StoragePrice struct {
	Class      string
	PriceMinor money.Minor // per GiB and 720 hours
	FreeBytes  int64       // of each project
	Currency   string
}

// QueueStoragePrice sets the price of all stored bytes from now on. What was stored before is charged at the former price.
// The price of a tenant whose balance is in another currency stays. The batch is part of a transaction.
func QueueStoragePrice(b *pgx.Batch, p StoragePrice) {
	b.Queue(setStoragePrice, p.Class, p.PriceMinor, p.FreeBytes, p.Currency)
	// A transaction that changes the bytes of a project may open a record at the former price, which no other transaction finds
	// before its commit. It has locked the tick before the table, so this one does so, too.
	b.Queue(lockTick)
	b.Queue(lockStored)
	b.Queue(repriceStored)
}

// StorageBurn returns the cost per hour of the stored bytes of a tenant, or of one of its projects.
func (s *Service) StorageBurn(ctx context.Context, q pg.Queryer, tenant ids.Tenant, project ids.Project) (burn money.Minor, err error) {
	if err := q.QueryRow(ctx, selectStorageBurn, tenant, projectOrNull(project)).Scan(&burn); err != nil {
		return 0, fmt.Errorf("reading what stored bytes of tenant %s cost: %w", tenant, err)
	}
	return burn, nil
}

// QueueStorageBurns reads the cost per hour of the stored bytes of a project, and of all projects of its tenant.
func QueueStorageBurns(b *pgx.Batch, tenant ids.Tenant, project ids.Project, ofProject, ofTenant *money.Minor) {
	b.Queue(selectStorageBurns, tenant, project).QueryRow(func(row pgx.Row) error {
		if err := row.Scan(ofProject, ofTenant); err != nil {
			return fmt.Errorf("reading what stored bytes of tenant %s cost: %w", tenant, err)
		}
		return nil
	})
}

// PayingForStorage returns those of the tenants whose stored bytes cost something, with their bytes.
func (s *Service) PayingForStorage(ctx context.Context, q pg.Queryer, tenants []ids.Tenant) (map[ids.Tenant]int64, error) {
	which := make([]uuid.UUID, len(tenants))
	for i, t := range tenants {
		which[i] = t.UUID
	}
	paying, err := pg.Pairs[ids.Tenant, int64](ctx, q, selectPaying, which)
	if err != nil {
		return nil, fmt.Errorf("listing who pays for stored bytes: %w", err)
	}
	return paying, nil
}

// AllStored returns the stored bytes of all projects above a number of free ones, so that a change of the price can be previewed.
func (s *Service) AllStored(ctx context.Context, q pg.Queryer, free int64) (bytes int64, err error) {
	if err := q.QueryRow(ctx, sumStored, free).Scan(&bytes); err != nil {
		return 0, fmt.Errorf("summing stored bytes: %w", err)
	}
	return bytes, nil
}

// StoredUse is the use of stored bytes of one project in a period.
type StoredUse struct {
	Project     ids.Project
	Currency    string
	ByteSeconds string // a decimal number
	CostMinor   money.Minor
}

// StoredUses lists the use of stored bytes of a tenant in the period of the query, by project.
func (s *Service) StoredUses(ctx context.Context, q Query) ([]StoredUse, error) {
	return pg.List(ctx, s.DB, "use of stored bytes", selectStoredUses, func(row pgx.CollectableRow) (u StoredUse, err error) {
		err = row.Scan(&u.Project, &u.Currency, &u.ByteSeconds, &u.CostMinor)
		return u, err
	}, q.Tenant, q.From.Unix(), q.To.Unix(), projectOrNull(q.Project))
}
