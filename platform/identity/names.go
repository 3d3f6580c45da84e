package identity

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// NamesOf are what projects, people and programs are called, by their ids, also of
// projects that were closed. Who has left the tenant has none: what they used
// stays, under the id.
func (s *Service) NamesOf(ctx context.Context, q pg.Queryer, of []uuid.UUID) (map[uuid.UUID]string, error) {
	if len(of) == 0 {
		return map[uuid.UUID]string{}, nil
	}
	names, err := pg.Pairs[uuid.UUID, string](ctx, q, selectNames, of)
	if err != nil {
		return nil, fmt.Errorf("reading names: %w", err)
	}
	return names, nil
}

// ProjectNames are what these projects are called, closed ones as well. Roles
// behind the doors may ask.
func (s *Service) ProjectNames(ctx context.Context, q pg.Queryer, of []ids.Project) (map[ids.Project]string, error) {
	names, err := pg.Pairs[ids.Project, string](ctx, q, selectProjectNames, of)
	if err != nil {
		return nil, fmt.Errorf("reading names of projects: %w", err)
	}
	return names, nil
}
