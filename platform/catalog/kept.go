package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Kept reads the rows of these SKUs, for whoever compares them with what was
// declared. One that has no price shows none.
func (s *Service) Kept(ctx context.Context, q pg.Queryer, names []string) (map[string]SKU, error) {
	rows, err := q.Query(ctx, selectKept, names)
	if err != nil {
		return nil, fmt.Errorf("reading kept SKUs: %w", err)
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
		return nil, fmt.Errorf("reading kept SKUs: %w", err)
	}
	return kept, nil
}

// KeptImages reads the rows of these images; a retired one is none.
func (s *Service) KeptImages(ctx context.Context, q pg.Queryer, names []string) (map[string]Image, error) {
	rows, err := q.Query(ctx, selectKeptImages, names)
	if err != nil {
		return nil, fmt.Errorf("reading kept images: %w", err)
	}
	kept := map[string]Image{}
	var i Image
	if _, err := pgx.ForEachRow(rows, []any{&i.ID.UUID, &i.Name, &i.DisplayName, &i.Digest, &i.Default}, func() error {
		kept[i.Name] = i
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading kept images: %w", err)
	}
	return kept, nil
}
