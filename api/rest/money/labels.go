package money

import (
	"context"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/product/allocation"
)

// labels are those of allocations, by id, with the name of the project. An ended allocation and a deleted project
// stay with the last name that they had.
type labels map[uuid.UUID]label

type label struct {
	allocation.Label

	projectName string
}

// labelsOf is a function, because methods have no type parameters of their own.
func labelsOf[T any](ctx context.Context, s *Handlers, list []T, of func(T) uuid.UUID) (labels, error) {
	which := make([]uuid.UUID, 0, len(list))
	for _, one := range list {
		if id := of(one); id != uuid.Nil {
			which = append(which, id)
		}
	}
	found, err := s.Allocations.Labels(ctx, which)
	if err != nil {
		return nil, err
	}
	projects := make([]uuid.UUID, 0, len(found))
	for _, l := range found {
		projects = append(projects, l.Project.UUID)
	}
	names, err := s.Identity.NamesOf(ctx, s.DB, projects)
	named := make(labels, len(found))
	for id, l := range found {
		named[id] = label{l, names[l.Project.UUID]}
	}
	return named, err
}
