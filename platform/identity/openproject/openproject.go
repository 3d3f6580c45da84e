// Package openproject rejects changes of closed projects for packages that lock rows of their own.
package openproject

import (
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

const (
	requireProject = `SELECT id FROM projects WHERE id = $1 AND deleted_at IS NULL`
	lockProject    = requireProject + ` FOR SHARE`
)

// QueueRequire fails if a project is closed. It locks nothing. The caller has locked a row that every transaction locks which closes
// the project, so the project stays open until the end of the caller's transaction.
func QueueRequire(b *pgx.Batch, id ids.Project) {
	b.Queue(requireProject, id).Exec(pg.OrElse(errClosed))
}

// QueueLock fails if a project is closed, and prevents its end until the end of the transaction. It is for rare transactions: with one
// in progress at any time, identity.QueueLockProject would wait without an end.
func QueueLock(b *pgx.Batch, id ids.Project) {
	b.Queue(lockProject, id).Exec(pg.OrElse(errClosed))
}

var errClosed = errs.New(errs.NotFound, "the project of this request was deleted")
