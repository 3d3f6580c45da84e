package allocation

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Names are what allocations are called, by their ids, also of those that are over.
func (s *Service) Names(ctx context.Context, of []uuid.UUID) (map[uuid.UUID]string, error) {
	names := make(map[uuid.UUID]string, len(of))
	if len(of) == 0 {
		return names, nil
	}
	rows, err := s.DB.Query(ctx, selectNames, of)
	if err != nil {
		return nil, fmt.Errorf("reading names of allocations: %w", err)
	}
	var id uuid.UUID
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading names of allocations: %w", err)
	}
	return names, nil
}
