package identity

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// QueueLock locks the caller's tenant, project and principal for the rest of the transaction. All code
// locks them in this sequence, so two requests of one tenant wait for each other and never deadlock.
// Caps and balance are checked under this lock.
func QueueLock(b *pgx.Batch, c Caller) {
	queueLockTenant(b, c.Tenant)
	if c.Project != (ids.Project{}) {
		QueueLockProject(b, c.Project)
	}
	QueueLockPrincipal(b, c)
}

// queueLockTenant locks a tenant.
func queueLockTenant(b *pgx.Batch, id ids.Tenant) {
	b.Queue(lockTenant, id).Exec(exists("tenant"))
}

// QueueLockProject locks a project that is not closed.
func QueueLockProject(b *pgx.Batch, id ids.Project) {
	b.Queue(lockProject, id).Exec(exists("project"))
}

// QueueLockUser locks a user.
func QueueLockUser(b *pgx.Batch, id ids.User) {
	b.Queue(lockUser, id).Exec(exists("user"))
}

// QueueLockPrincipal locks the user or the service account that owns the caller's objects.
func QueueLockPrincipal(b *pgx.Batch, c Caller) {
	if c.ServiceAccount != (ids.ServiceAccount{}) {
		b.Queue(lockServiceAccount, c.ServiceAccount).Exec(exists("service account"))
		return
	}
	QueueLockUser(b, c.User)
}

func exists(what string) func(pgconn.CommandTag) error {
	return pg.OrElse(errs.New(errs.NotFound, "the %s of this request was deleted", what))
}

// Barred returns those of the tenants in whose allocations the principal has no access: it is disabled or
// deleted, or a user who is neither a member nor works for the platform.
func Barred(ctx context.Context, q pg.Queryer, principal uuid.UUID, tenants []ids.Tenant) (map[ids.Tenant]bool, error) {
	rows, err := q.Query(ctx, selectBarred, principal, tenants)
	if err != nil {
		return nil, fmt.Errorf("reading who has access: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[ids.Tenant])
	if err != nil {
		return nil, fmt.Errorf("reading who has access: %w", err)
	}
	barred := map[ids.Tenant]bool{}
	for _, t := range found {
		barred[t] = true
	}
	return barred, nil
}

// QueueNotBarred fails the batch with an error if the caller has no access in its tenant any more. Queue it
// behind QueueLockPrincipal.
func QueueNotBarred(b *pgx.Batch, c Caller, rejection error) {
	b.Queue(selectBarred, c.Principal(), []uuid.UUID{c.Tenant.UUID}).Exec(Unless(rejection))
}

// rekey makes the principal's allocations follow a change of its rights, in the caller's transaction.
func (s *Service) rekey(ctx context.Context, principal uuid.UUID) func(pgx.Tx) error {
	if s.Rekey == nil {
		return nil
	}
	return func(tx pgx.Tx) error { return s.Rekey(ctx, tx, principal) }
}
