package billing

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Files is the port to the package that stores the files of tenants.
type Files interface {
	// DeleteFiles deletes all files of a tenant for good, in tx, and returns their number and bytes.
	DeleteFiles(ctx context.Context, tx pgx.Tx, tenant ids.Tenant) (objects, bytes int64, err error)
}

// The notices about files that the tenant cannot pay.
const (
	FilesScheduled Notice = "storage_deletion_scheduled"
	FilesCancelled Notice = "storage_deletion_cancelled"
	FilesDeleted   Notice = "storage_deleted"
)

// Subjects of the events about them.
const (
	SubjectFilesScheduled = "billing.storage_deletion_scheduled"
	SubjectFilesCancelled = "billing.storage_deletion_cancelled"
	SubjectFilesDeleted   = "billing.storage_deleted"
)

// StorageScheduledEvent is the payload of billing.storage_deletion_scheduled.
type StorageScheduledEvent struct {
	BalanceMinor money.Minor `json:"balance_minor"`
	Currency     string      `json:"currency"`
	StoredBytes  int64       `json:"stored_bytes"`
	DeletesAt    time.Time   `json:"deletes_at"`
	DaysLeft     int64       `json:"days_left"` // rounded up
}

// StorageCancelledEvent is the payload of billing.storage_deletion_cancelled.
type StorageCancelledEvent struct {
	BalanceMinor money.Minor `json:"balance_minor"`
	Currency     string      `json:"currency"`
}

// StorageDeletedEvent is the payload of billing.storage_deleted.
type StorageDeletedEvent struct {
	BalanceMinor   money.Minor `json:"balance_minor"`
	Currency       string      `json:"currency"`
	DeletedBytes   int64       `json:"deleted_bytes"`
	DeletedObjects int64       `json:"deleted_objects"`
}

const day = 24 * time.Hour

// reminded are the times before the deletion of files at which its notice is repeated.
var reminded = []time.Duration{day, 3 * day, 7 * day}

// files schedules the deletion of files that cost something while the balance is used up. A credit cancels it, and so does
// the deletion of the files by the tenant. After the deletion the state stays until the files are purged.
func (s *State) files(r Reading) Notice {
	switch {
	case r.FilesDeleted:
		s.FilesNotifiedAt = &r.Now
		return FilesDeleted
	case r.Balance > 0 || r.Stored == 0:
		if s.FilesDeleteAt == nil {
			return ""
		}
		done := s.filesDeleted()
		s.FilesDeleteAt, s.FilesNotifiedAt = nil, nil
		if done {
			return ""
		}
		return FilesCancelled
	case s.FilesDeleteAt == nil:
		at := r.Now.Add(r.FilesGrace)
		s.FilesDeleteAt, s.FilesNotifiedAt = &at, &r.Now
		return FilesScheduled
	}
	for _, before := range reminded {
		if at := s.FilesDeleteAt.Add(-before); !r.Now.Before(at) && s.FilesNotifiedAt.Before(at) {
			s.FilesNotifiedAt = &r.Now
			return FilesScheduled
		}
	}
	return ""
}

// filesDeleted reports whether the scheduled deletion has been done. Its notice is the last one.
func (s *State) filesDeleted() bool {
	return s.FilesDeleteAt != nil && !s.FilesNotifiedAt.Before(*s.FilesDeleteAt)
}

// filesEvent returns the subject and the payload of a notice about files.
func (t turn) filesEvent(n Notice) (subject string, payload any) {
	switch n { //nolint:exhaustive // the others are not about files
	case FilesScheduled:
		left := t.next.FilesDeleteAt.Sub(t.Now)
		return SubjectFilesScheduled, StorageScheduledEvent{
			BalanceMinor: t.Balance, Currency: t.currency, StoredBytes: t.Stored, DeletesAt: t.next.FilesDeleteAt.UTC(), DaysLeft: int64((max(left, 0) + day - 1) / day),
		}
	case FilesCancelled:
		return SubjectFilesCancelled, StorageCancelledEvent{BalanceMinor: t.Balance, Currency: t.currency}
	default:
		return SubjectFilesDeleted, StorageDeletedEvent{BalanceMinor: t.Balance, Currency: t.currency, DeletedBytes: t.gone.bytes, DeletedObjects: t.gone.objects}
	}
}

// OverdueFiles lists those of the tenants whose scheduled deletion of files is due.
func (s *Service) OverdueFiles(ctx context.Context, q pg.Queryer, tenants []ids.Tenant) ([]ids.Tenant, error) {
	which := make([]uuid.UUID, len(tenants))
	for i, t := range tenants {
		which[i] = t.UUID
	}
	return pg.List(ctx, q, "files that are due", selectOverdueFiles, pgx.RowTo[ids.Tenant], which)
}

// DeleteFiles deletes the files of a tenant whose deletion is due, with the event. A credit that commits first prevents it.
func (s *Service) DeleteFiles(ctx context.Context, tx pgx.Tx, tenant ids.Tenant) (deleted bool, err error) {
	rows, balances, err := s.lockNotices(ctx, tx, []ids.Tenant{tenant})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	row := rows[0]
	due := row.FilesDeleteAt != nil && !row.filesDeleted() && !row.now.Before(*row.FilesDeleteAt) && balances[tenant].Minor <= 0
	var gone files
	if due {
		if gone.objects, gone.bytes, err = s.Files.DeleteFiles(ctx, tx, tenant); err != nil {
			return false, fmt.Errorf("deleting the files of %s: %w", tenant, err)
		}
		gone.any = true
	}
	return due, s.notify(ctx, tx, rows, balances, nil, gone)
}

// files counts what was just deleted.
type files struct {
	any            bool
	objects, bytes int64
}

// stored completes the readings of tenants without a balance by what they store. Others need nothing of it.
func (s *Service) stored(ctx context.Context, tx pgx.Tx, turns []turn) error {
	var which []ids.Tenant
	for _, t := range turns {
		if t.Balance <= 0 {
			which = append(which, t.tenant)
		}
	}
	if len(which) == 0 {
		return nil
	}
	bytes, err := s.Metering.PayingForStorage(ctx, tx, which)
	if err != nil || len(bytes) == 0 {
		return err
	}
	var retention time.Duration
	if s.Catalog != nil {
		class, err := s.Catalog.DefaultClass(ctx, tx)
		if err != nil {
			return err
		}
		retention = time.Duration(class.RetentionDays) * day
	}
	for i := range turns {
		turns[i].Stored, turns[i].FilesGrace = bytes[turns[i].tenant], max(turns[i].FilesGrace, retention)
	}
	return nil
}
