package identity

import (
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
	QueueLockTenant(b, c.Tenant)
	if c.Project != (ids.Project{}) {
		QueueLockProject(b, c.Project)
	}
	QueueLockPrincipal(b, c)
}

// QueueLockTenant locks a tenant.
func QueueLockTenant(b *pgx.Batch, id ids.Tenant) {
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
