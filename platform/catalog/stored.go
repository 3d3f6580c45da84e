package catalog

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// StoredSKUs returns the applied specs of these SKUs by name, so that the caller can compare them with the
// desired ones. A SKU without a price has an empty currency.
func (s *Service) StoredSKUs(ctx context.Context, q pg.Queryer, names []string) (map[string]json.RawMessage, error) {
	return stored(ctx, q, "SKUs", selectStoredSKUs, names)
}

// StoredImages returns the applied specs of these images by name, without retired ones.
func (s *Service) StoredImages(ctx context.Context, q pg.Queryer, names []string) (map[string]json.RawMessage, error) {
	return stored(ctx, q, "images", selectStoredImages, names)
}

func stored(ctx context.Context, q pg.Queryer, what, statement string, names []string) (map[string]json.RawMessage, error) {
	rows, err := q.Query(ctx, statement, names)
	if err != nil {
		return nil, fmt.Errorf("reading applied %s: %w", what, err)
	}
	specs := map[string]json.RawMessage{}
	var name string
	var spec json.RawMessage
	if _, err := pgx.ForEachRow(rows, []any{&name, &spec}, func() error {
		specs[name] = append(json.RawMessage(nil), spec...)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading applied %s: %w", what, err)
	}
	return specs, nil
}
