package storage

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// workActor names the workers in the audit log.
const workActor = "system:work"

// DeleteFiles deletes all files and folders of a tenant for good, those that could be restored, too. The cleanup job purges
// them. It returns their number and bytes.
func (s *Service) DeleteFiles(ctx context.Context, tx pgx.Tx, tenant ids.Tenant) (objects, bytes int64, err error) {
	if _, err := pg.List(ctx, tx, "projects with files", lockProjects, pgx.RowTo[uuid.UUID], tenant); err != nil {
		return 0, 0, err
	}
	b := &pgx.Batch{}
	b.Queue(purgeTenant, tenant).QueryRow(func(row pgx.Row) error { return row.Scan(&objects, &bytes) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return 0, 0, fmt.Errorf("deleting the files of %s: %w", tenant, err)
	}
	b = &pgx.Batch{}
	audit.Queue(b, audit.Entry{
		Tenant: tenant, By: audit.By{Actor: workActor}, Action: "storage.delete_all",
		Target: s.Naming.Name(tenant.String(), "", "tenant", tenant.String()).String(), After: map[string]any{"objects": objects, "bytes": bytes, "reason": "balance_depleted"},
	})
	return objects, bytes, tx.SendBatch(ctx, b).Close()
}

// QueueEmpty fails the caller's transaction, which closes a project, if the project has files, folders or uploads. Deleted files
// count until they are purged.
func QueueEmpty(b *pgx.Batch, project ids.Project) {
	b.Queue(lockEmpty, project).QueryRow(func(row pgx.Row) error {
		var objects, bytes int64
		if err := row.Scan(&objects, &bytes); err != nil {
			return fmt.Errorf("reading whether there are files of %s: %w", project, err)
		}
		if objects > 0 || bytes > 0 {
			return errs.New(errs.ProjectNotEmpty, "the project has %d files and folders, or uploads of files", objects).
				Try("delete all files for good, those that can be restored, too").With("objects", objects).With("bytes", bytes)
		}
		return nil
	})
}

// Stored returns the number of files and folders of all projects of a tenant, and their bytes with those of uploads.
func (s *Service) Stored(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (objects, bytes int64, err error) {
	if err := q.QueryRow(ctx, tenantStores, tenant).Scan(&objects, &bytes); err != nil {
		return 0, 0, fmt.Errorf("reading whether there are files of %s: %w", tenant, err)
	}
	return objects, bytes, nil
}

// Totals are the bytes and objects of all tenants.
type Totals struct{ Bytes, Reserved, Objects int64 }

// Totals reads them.
func (s *Service) Totals(ctx context.Context) (t Totals, err error) {
	if err := s.DB.QueryRow(ctx, selectTotals).Scan(&t.Bytes, &t.Reserved, &t.Objects); err != nil {
		return Totals{}, fmt.Errorf("summing stored bytes: %w", err)
	}
	return t, nil
}
