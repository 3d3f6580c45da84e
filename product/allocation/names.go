package allocation

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Names returns the names of allocations by id, ended allocations included.
func (s *Service) Names(ctx context.Context, of []uuid.UUID) (map[uuid.UUID]string, error) {
	if len(of) == 0 {
		return map[uuid.UUID]string{}, nil
	}
	names, err := pg.Pairs[uuid.UUID, string](ctx, s.DB, selectNames, of)
	if err != nil {
		return nil, fmt.Errorf("reading names of allocations: %w", err)
	}
	return names, nil
}
