package identity

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// NamesOf returns the names of projects, users and service accounts by id, closed projects included. A
// user who left the tenant has no name here: their usage stays, under the id.
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

// ProjectNames returns the names of these projects, closed projects included. Roles without a request
// scope may call it.
func (s *Service) ProjectNames(ctx context.Context, q pg.Queryer, of []ids.Project) (map[ids.Project]string, error) {
	names, err := pg.Pairs[ids.Project, string](ctx, q, selectProjectNames, of)
	if err != nil {
		return nil, fmt.Errorf("reading names of projects: %w", err)
	}
	return names, nil
}
