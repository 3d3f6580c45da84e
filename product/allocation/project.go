package allocation

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage"
)

// CloseProject ends a project in which nothing lives and nothing is stored. A failed release counts as
// living: its slots are not proved clean. Version zero is any.
func (s *Service) CloseProject(ctx context.Context, ch identity.Change[struct{}], id ids.Project, version int64) error {
	p, err := s.Identity.ProjectByID(ctx, ch.Caller, id)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	// A request locks the same project: it is counted, or commits later and finds no project.
	if err := s.Identity.QueueCloseProject(b, ch, p, version); err != nil {
		return err
	}
	b.Queue(countHeld, id).QueryRow(func(row pgx.Row) error {
		var held int
		if err := row.Scan(&held); err != nil {
			return fmt.Errorf("counting allocations: %w", err)
		}
		if held > 0 {
			return errs.New(errs.ProjectNotEmpty, "the project has %d live allocations", held).Try("release them first").With("allocations", held)
		}
		return nil
	})
	storage.QueueEmpty(b, id)
	if err := pg.Commit(ctx, s.DB, b, func() {}); err != nil {
		return err
	}
	s.Identity.RightsChanged()
	return nil
}

// CountActive returns the number of active allocations of a user in the tenant.
func (s *Service) CountActive(ctx context.Context, tenant ids.Tenant, user ids.User) (n int, err error) {
	if err := s.DB.QueryRow(ctx, countActive, tenant, user).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting active allocations: %w", err)
	}
	return n, nil
}

// LiveOf counts the live allocations of a tenant, or those of a user in all tenants. A failed release counts.
func (s *Service) LiveOf(ctx context.Context, q pg.Queryer, tenant ids.Tenant, user ids.User) (n int, err error) {
	statement, of := countOfTenant, tenant.UUID
	if user != (ids.User{}) {
		statement, of = countOfUser, user.UUID
	}
	if err := q.QueryRow(ctx, statement, of).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting live allocations: %w", err)
	}
	return n, nil
}
