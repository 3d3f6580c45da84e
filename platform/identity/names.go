package identity

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// NamesOf are what projects, people and programs are called, by their ids, also of
// projects that were closed. Who has left the tenant has none: what they used
// stays, under the id.
func (s *Service) NamesOf(ctx context.Context, q pg.Queryer, of []uuid.UUID) (map[uuid.UUID]string, error) {
	names := make(map[uuid.UUID]string, len(of))
	if len(of) == 0 {
		return names, nil
	}
	rows, err := q.Query(ctx, selectNames, of)
	if err != nil {
		return nil, fmt.Errorf("reading names: %w", err)
	}
	var id uuid.UUID
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading names: %w", err)
	}
	return names, nil
}
