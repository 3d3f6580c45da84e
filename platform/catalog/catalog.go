// Package catalog owns the SKUs with their prices, and the operating system images. Its rows are copied from
// desired objects. It decides neither who may buy nor whether slots are free.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Topic is the hint to send after a commit that changed the catalogue.
const Topic = "catalog"

// SKU is a product with its current price.
type SKU struct {
	ID          ids.Object
	Name        string
	DisplayName string
	GPUModel    string
	MemoryGiB   int
	Isolation   string // host_user, slice_vm, full_reimage
	MaxGPUs     int    // of one allocation
	Active      bool
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Currency    string
	PriceMinor  money.Minor // per GPU and hour
}

// Service answers from the database; offers also from memory.
type Service struct {
	DB    pg.Pool
	Clock clock.Clock
	Hints *hint.Bus // nil where no other process declares

	mu     sync.Mutex
	wake   <-chan struct{}
	offers map[string]SKU
	until  time.Time
	epoch  int64 // rises with each forgetting
}

// offersFor bounds what a lost hint costs: a price that is this late.
const offersFor = 5 * time.Second

// ActiveSKU returns an active SKU by name.
func (s *Service) ActiveSKU(ctx context.Context, name string) (SKU, error) {
	offers, epoch := s.remembered()
	if offers == nil {
		var err error
		if offers, err = s.load(ctx); err != nil {
			return SKU{}, err
		}
		s.cache(offers, epoch)
	}
	sku, found := offers[name]
	if !found {
		return SKU{}, errs.New(errs.SKUUnknown, "no SKU named %q is for sale", name).At("sku").
			Try("list the SKUs at /api/v1/skus")
	}
	return sku, nil
}

// Invalidate makes the next ActiveSKU read the database again. Declare calls it before the commit of its
// transaction, so the caller that commits sends the hint, too.
func (s *Service) Invalidate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offers = nil
	s.epoch++
}

func (s *Service) remembered() (offers map[string]SKU, epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake == nil && s.Hints != nil {
		s.wake, _ = s.Hints.Listen(Topic) // for as long as the service lives
	}
	select {
	case <-s.wake: // never ready where there are no hints
		s.offers = nil
		s.epoch++
	default:
	}
	if !s.Clock.Now().Before(s.until) {
		s.offers = nil
	}
	return s.offers, s.epoch
}

// cache caches the result of a read unless something changed since.
func (s *Service) cache(offers map[string]SKU, epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch == s.epoch {
		s.offers, s.until = offers, s.Clock.Now().Add(offersFor)
	}
}

func (s *Service) load(ctx context.Context) (map[string]SKU, error) {
	rows, err := s.DB.Query(ctx, selectOffers)
	if err != nil {
		return nil, fmt.Errorf("reading offers: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanSKU)
	if err != nil {
		return nil, fmt.Errorf("reading offers: %w", err)
	}
	offers := make(map[string]SKU, len(all))
	for _, sku := range all {
		offers[sku.Name] = sku
	}
	return offers, nil
}

// List returns SKUs by name, after the given one, retired ones too.
func (s *Service) List(ctx context.Context, after string, limit int) ([]SKU, error) {
	rows, err := s.DB.Query(ctx, selectSKUs, after, limit)
	if err != nil {
		return nil, fmt.Errorf("listing SKUs: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanSKU)
	if err != nil {
		return nil, fmt.Errorf("listing SKUs: %w", err)
	}
	return all, nil
}

// All returns the active and the withdrawn SKUs with their current prices, as q reads them.
func (s *Service) All(ctx context.Context, q pg.Queryer) ([]SKU, error) {
	rows, err := q.Query(ctx, selectAll)
	if err != nil {
		return nil, fmt.Errorf("reading the catalogue: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanSKU)
	if err != nil {
		return nil, fmt.Errorf("reading the catalogue: %w", err)
	}
	return all, nil
}

func scanSKU(row pgx.CollectableRow) (s SKU, err error) {
	err = row.Scan(&s.ID.UUID, &s.Name, &s.DisplayName, &s.GPUModel, &s.MemoryGiB, &s.Isolation,
		&s.MaxGPUs, &s.Active, &s.CreatedAt, &s.UpdatedAt, &s.Currency, &s.PriceMinor)
	return s, err
}

// Declare stores the desired spec of a SKU, which encodes as JSON, as the applied one, but for its price: a price that
// differs from the last one adds a row with today's date. Existing intervals have their own price.
func (s *Service) Declare(ctx context.Context, tx pgx.Tx, id ids.Object, name string, spec any) error {
	b := &pgx.Batch{}
	b.Queue(upsertSKU, id.UUID, name, spec)
	b.Queue(insertPrice, name, spec)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("declaring SKU %s: %w", name, err)
	}
	s.Invalidate()
	return nil
}

// Retire withdraws the SKU from sale. Its allocations stay.
func (s *Service) Retire(ctx context.Context, tx pgx.Tx, id ids.Object) error {
	if _, err := tx.Exec(ctx, retireSKU, id.UUID); err != nil {
		return fmt.Errorf("retiring SKU %s: %w", id, err)
	}
	s.Invalidate()
	return nil
}

// Get returns a SKU by name, retired or not.
func (s *Service) Get(ctx context.Context, name string) (SKU, error) {
	return s.GetIn(ctx, s.DB, name)
}

// GetIn reads it in the caller's transaction, without what is remembered.
func (s *Service) GetIn(ctx context.Context, q pg.Queryer, name string) (SKU, error) {
	rows, err := q.Query(ctx, selectSKU, name)
	if err != nil {
		return SKU{}, fmt.Errorf("reading SKU %s: %w", name, err)
	}
	sku, err := pgx.CollectExactlyOneRow(rows, scanSKU)
	if errors.Is(err, pgx.ErrNoRows) {
		return SKU{}, errs.New(errs.NotFound, "no such SKU")
	}
	if err != nil {
		return SKU{}, fmt.Errorf("reading SKU %s: %w", name, err)
	}
	return sku, nil
}
