package allocation

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
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

// Label describes an allocation to a reader. It stays after the allocation has ended.
type Label struct {
	Name    string
	Project ids.Project
	SKU     string
}

// Labels returns the labels of allocations by id, ended allocations included.
func (s *Service) Labels(ctx context.Context, of []uuid.UUID) (map[uuid.UUID]Label, error) {
	labels := make(map[uuid.UUID]Label, len(of))
	if len(of) == 0 {
		return labels, nil
	}
	rows, err := s.DB.Query(ctx, selectLabels, of)
	if err != nil {
		return nil, fmt.Errorf("reading labels of allocations: %w", err)
	}
	var id uuid.UUID
	var l Label
	_, err = pgx.ForEachRow(rows, []any{&id, &l.Name, &l.Project, &l.SKU}, func() error {
		labels[id] = l
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading labels of allocations: %w", err)
	}
	return labels, nil
}
