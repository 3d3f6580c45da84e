package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity/openproject"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// Usage has the bytes and the number of stored objects, and their limits.
type Usage struct {
	Bytes, Reserved, Objects   int64
	QuotaBytes, QuotaObjects   int64
	TenantBytes, TenantObjects int64 // of all projects, with reserved bytes
	TenantQuotaBytes           int64
	TenantQuotaObjects         int64
}

// Usage returns what the stored objects of a project and of its tenant use.
func (s *Service) Usage(ctx context.Context, at Scope) (Usage, error) {
	limits := s.Limits(at.Tenant, at.Project)
	u := Usage{QuotaBytes: limits.ProjectBytes, QuotaObjects: limits.ProjectObjects, TenantQuotaBytes: limits.TenantBytes, TenantQuotaObjects: limits.TenantObjects}
	err := s.DB.QueryRow(ctx, selectUsage, at.Project, at.Tenant).Scan(&u.Bytes, &u.Reserved, &u.Objects, &u.TenantBytes, &u.TenantObjects)
	return u, wrap(err, "reading the storage usage of", at.Project)
}

// change is the effect of one transaction on the usage of a project and its tenant.
type change struct{ bytes, reserved, objects int64 }

// lock locks the files and folders of a project against other changes, and reads the objects along a path. It fails if the
// project is closed: the transaction that closes it locks the same row, and counts what it has.
func (s *Service) lock(ctx context.Context, tx pg.Queryer, at Scope, p objectpath.Path) (walked, error) {
	return s.lockRows(ctx, tx, at, p, true)
}

// inProject runs a transaction that begins with the statements of a batch and with lock, all in one round trip.
func (s *Service) inProject(ctx context.Context, first *pgx.Batch, at Scope, p objectpath.Path, do func(tx pg.Queryer, w walked) error) error {
	l := queueLock(first, at, p, true)
	return pg.Transact(ctx, s.DB, first, func(tx pg.Queryer) error {
		if !l.done { // the first change of the project
			var err error
			if l.walked, err = s.lock(ctx, tx, at, p); err != nil {
				return err
			}
		}
		return do(tx, l.walked)
	})
}

// lockClosed is lock for work that only removes, which goes on after a project is closed.
func (s *Service) lockClosed(ctx context.Context, tx pg.Queryer, at Scope) error {
	_, err := s.lockRows(ctx, tx, at, nil, false)
	return err
}

func (s *Service) lockRows(ctx context.Context, tx pg.Queryer, at Scope, p objectpath.Path, open bool) (walked, error) {
	for range 2 {
		b := &pgx.Batch{}
		l := queueLock(b, at, p, open)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return l.walked, wrap(err, "locking the files of", at.Project)
		}
		if l.done {
			return l.walked, nil
		}
		if err := insertRows(ctx, tx, at); err != nil {
			return l.walked, wrap(err, "creating the folder of", at.Project)
		}
	}
	return walked{}, fmt.Errorf("the folder of %s was not created", at.Project)
}

// locked has what the statements of queueLock have read. They lock nothing, where a project has no rows yet.
type locked struct {
	walked

	done bool
}

func queueLock(b *pgx.Batch, at Scope, p objectpath.Path, open bool) *locked {
	l := &locked{}
	b.Queue(lockProject, at.Project).QueryRow(func(row pgx.Row) error {
		var one int
		err := row.Scan(&one)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		l.done = err == nil
		return err
	})
	if open {
		openproject.QueueRequire(b, at.Project)
	}
	b.Queue(selectPath, at.Project, p.FoldAll()).Query(func(rows pgx.Rows) (err error) {
		l.walked, err = collectPath(rows, p)
		return err
	})
	return l
}

// insertRows creates the rows of a project at its first change. A transaction that closes the project finds no row to lock
// before this one ends, and waits for the project itself.
func insertRows(ctx context.Context, tx pg.Queryer, at Scope) error {
	b := &pgx.Batch{}
	openproject.QueueLock(b, at.Project)
	b.Queue(insertRoot, at.Tenant, at.Project)
	return tx.SendBatch(ctx, b).Close()
}

// queueUsage queues a change of usage, and meters it. It fails where more would be used than the limits allow, or than a tenant
// without a balance may store; less is always possible. Afterwards the transaction locks no row that another one may lock: the
// end of a tick waits for what is metered.
func (s *Service) queueUsage(b *pgx.Batch, at Scope, c change) {
	limits := s.Limits(at.Tenant, at.Project)
	// Every transaction locks the project before the tenant.
	for _, of := range []struct {
		scope          uuid.UUID
		name           string
		bytes, objects int64
	}{{at.Project.UUID, "project", limits.ProjectBytes, limits.ProjectObjects}, {at.Tenant.UUID, "tenant", limits.TenantBytes, limits.TenantObjects}} {
		b.Queue(updateUsage, of.scope, c.bytes, c.reserved, c.objects).QueryRow(func(row pgx.Row) error {
			var bytes, objects int64
			if err := row.Scan(&bytes, &objects); err != nil {
				return err
			}
			switch {
			case c.bytes+c.reserved > 0 && bytes > of.bytes:
				return errs.New(errs.StorageQuotaExceeded, "the %s would store %d bytes, and %d are allowed", of.name, bytes, of.bytes).
					Try("delete files for good, or request a higher storage.quota_bytes").With("policy", "storage.quota_bytes").With("scope", of.name)
			case c.objects > 0 && objects > of.objects:
				return errs.New(errs.StorageQuotaExceeded, "the %s would have %d files and folders, and %d are allowed", of.name, objects, of.objects).
					Try("delete files for good, or request a higher storage.max_objects").With("policy", "storage.max_objects").With("scope", of.name)
			}
			return nil
		})
	}
	if wanted := max(c.bytes, c.bytes+c.reserved); c.bytes != 0 || wanted > 0 {
		metering.QueueStored(b, metering.Stored{Tenant: at.Tenant, Project: at.Project, Bytes: c.bytes, Wanted: wanted})
	}
}

// Reservations of bytes.
const (
	firstStep, lastStep = 8 << 20, 256 << 20
	reservedFor         = 15 * time.Minute
	renewAfter          = 5 * time.Minute
	// A backend object stays so long after its last file, for downloads in progress.
	unusedFor = time.Hour
)

// reservation counts bytes of the quota for a backend object that no file has yet.
type reservation struct {
	s       *Service
	at      Scope
	key     uuid.UUID
	bytes   int64
	stored  bool
	renewed time.Time
}

func (s *Service) reserve(ctx context.Context, at Scope, bytes int64) (*reservation, error) {
	r := &reservation{s: s, at: at, key: uuid.Must(uuid.NewV7()), renewed: s.Clock.Now()}
	if err := r.resize(ctx, bytes); err != nil {
		return nil, err
	}
	return r, nil
}

// resize changes the reserved bytes, and moves the end of the reservation.
func (r *reservation) resize(ctx context.Context, bytes int64) error {
	err := r.s.inProject(ctx, &pgx.Batch{}, r.at, nil, func(tx pg.Queryer, _ walked) error {
		b := &pgx.Batch{}
		r.s.queueUsage(b, r.at, change{reserved: bytes - r.bytes})
		if !r.stored {
			b.Queue(insertReservation, r.key, r.at.Tenant, r.at.Project, bytes, reservedFor)
		} else {
			b.Queue(updateReservation, r.key, bytes, reservedFor).Exec(pg.OrElse(errExpired))
		}
		return tx.SendBatch(ctx, b).Close()
	})
	if err == nil {
		r.bytes, r.stored, r.renewed = bytes, true, r.s.Clock.Now()
	}
	return wrap(err, "reserving bytes for", r.key)
}

var errExpired = errs.New(errs.Conflict, "the upload took too long, and its reservation has ended").Try("upload the file again")

// covers makes the reservation cover a number of bytes.
func (r *reservation) covers(ctx context.Context, bytes int64) error {
	want := r.bytes
	for want < bytes {
		want += min(max(want, firstStep), lastStep)
	}
	if want == r.bytes && r.s.Clock.Now().Sub(r.renewed) < renewAfter {
		return nil
	}
	return r.resize(ctx, want)
}

// cancel gives the bytes back. The cleanup job deletes the backend object, if there is one.
func (r *reservation) cancel(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return pgx.BeginFunc(ctx, r.s.DB, func(tx pgx.Tx) error {
		if err := r.s.lockClosed(ctx, tx, r.at); err != nil {
			return err
		}
		return r.s.endReservation(ctx, tx, r.at, r.key)
	})
}

// endReservation gives the bytes of a reservation back, in a transaction that has locked the project.
func (s *Service) endReservation(ctx context.Context, tx pg.Queryer, at Scope, key uuid.UUID) error {
	var bytes int64
	switch err := tx.QueryRow(ctx, endReservation, key).Scan(&bytes); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	b := &pgx.Batch{}
	s.queueUsage(b, at, change{reserved: -bytes})
	return tx.SendBatch(ctx, b).Close()
}
