package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// StoredSKUs reads the rows of these SKUs, so that the caller can compare them with their desired
// objects. An SKU without a price has none in the result.
func (s *Service) StoredSKUs(ctx context.Context, q pg.Queryer, names []string) (map[string]SKU, error) {
	rows, err := q.Query(ctx, selectStoredSKUs, names)
	if err != nil {
		return nil, fmt.Errorf("reading stored SKUs: %w", err)
	}
	kept := map[string]SKU{}
	var k SKU
	if _, err := pgx.ForEachRow(rows, []any{
		&k.ID.UUID, &k.Name, &k.DisplayName, &k.GPUModel, &k.MemoryGiB, &k.Isolation,
		&k.MaxGPUs, &k.Active, &k.Currency, &k.PriceMinor,
	}, func() error {
		kept[k.Name] = k
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading stored SKUs: %w", err)
	}
	return kept, nil
}

// StoredImages reads the rows of these images; a retired one is none.
func (s *Service) StoredImages(ctx context.Context, q pg.Queryer, names []string) (map[string]Image, error) {
	rows, err := q.Query(ctx, selectStoredImages, names)
	if err != nil {
		return nil, fmt.Errorf("reading stored images: %w", err)
	}
	kept := map[string]Image{}
	var i Image
	if _, err := pgx.ForEachRow(rows, []any{&i.ID.UUID, &i.Name, &i.DisplayName, &i.Digest, &i.Default}, func() error {
		kept[i.Name] = i
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading stored images: %w", err)
	}
	return kept, nil
}
