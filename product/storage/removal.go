package storage

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// workActor names the workers in the audit log.
const workActor = "system:work"

// DeleteFiles deletes all files and folders of a tenant for good, those that could be restored, too, and ends the uploads in
// progress. The cleanup job purges them. DeleteFiles returns the number and the bytes of the files.
func (s *Service) DeleteFiles(ctx context.Context, tx pgx.Tx, tenant ids.Tenant) (objects, bytes int64, err error) {
	projects, err := pg.List(ctx, tx, "projects with files", lockProjects, pgx.RowTo[uuid.UUID], tenant)
	if err != nil {
		return 0, 0, err
	}
	var uploads int64
	b := &pgx.Batch{}
	b.Queue(endUploadsOf, projects).Exec(func(tag pgconn.CommandTag) error {
		uploads = tag.RowsAffected()
		return nil
	})
	b.Queue(purgeTenant, tenant).QueryRow(func(row pgx.Row) error { return row.Scan(&objects, &bytes) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return 0, 0, fmt.Errorf("deleting the files of %s: %w", tenant, err)
	}
	b = &pgx.Batch{}
	audit.Queue(b, audit.Entry{
		Tenant: tenant, By: audit.By{Actor: workActor}, Action: "storage.delete_all",
		Target: s.Naming.Name(tenant.String(), "", "tenant", tenant.String()).String(), After: map[string]any{"objects": objects, "bytes": bytes, "uploads": uploads, "reason": "balance_depleted"},
	})
	return objects, bytes, tx.SendBatch(ctx, b).Close()
}

// QueueEmpty fails the caller's transaction, which closes a project, if the project has files, folders or uploads. Deleted files
// count until they are purged. The caller has marked the project as closed: a change that begins later finds it so.
func QueueEmpty(b *pgx.Batch, project ids.Project) {
	var objects, bytes int64
	b.Queue(lockEmpty, project).QueryRow(func(row pgx.Row) error { return row.Scan(&objects, &bytes) })
	b.Queue(openUploads, project).QueryRow(func(row pgx.Row) error {
		var uploads int64
		if err := row.Scan(&uploads); err != nil {
			return fmt.Errorf("reading whether there are files of %s: %w", project, err)
		}
		if objects > 0 || bytes > 0 || uploads > 0 {
			return errs.New(errs.ProjectNotEmpty, "the project has %d files and folders, and %d uploads in progress", objects, uploads).
				Try("delete all files for good, those that can be restored, too, and abort the uploads").With("objects", objects).With("bytes", bytes).With("uploads", uploads)
		}
		return nil
	})
}

// Remaining counts the files of a tenant.
type Remaining struct {
	Objects int64 // files and folders
	Bytes   int64 // with those of uploads
	Uploads int64 // in progress
}

// Remaining locks the files of all projects of a tenant, in the caller's transaction, which has marked the projects as closed,
// and returns what there is.
func (s *Service) Remaining(ctx context.Context, tx pgx.Tx, tenant ids.Tenant) (r Remaining, err error) {
	if _, err := pg.List(ctx, tx, "projects with files", lockProjects, pgx.RowTo[uuid.UUID], tenant); err != nil {
		return r, err
	}
	if err := tx.QueryRow(ctx, tenantStores, tenant).Scan(&r.Objects, &r.Bytes, &r.Uploads); err != nil {
		return r, fmt.Errorf("reading whether there are files of %s: %w", tenant, err)
	}
	return r, nil
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
