package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// expired is an upload whose row is not needed any more.
type expired struct {
	at      Scope
	blob    blob.Upload
	state   State
	covered bool // the database has the whole history of the upload
}

// EndUploads removes uploads that have expired, with their reservations, parts and backend objects.
func (s *Service) EndUploads(ctx context.Context) error {
	for {
		due, err := pg.List(ctx, s.DB, "uploads", selectExpired, scanExpired, cleanupBatch)
		if err != nil || len(due) == 0 {
			return err
		}
		var failed error
		for _, u := range due {
			if err := s.endUpload(ctx, u); err != nil {
				failed = errors.Join(failed, fmt.Errorf("ending the upload %s: %w", u.blob.ID, err))
			}
		}
		if failed != nil {
			return failed
		}
	}
}

func scanExpired(row pgx.CollectableRow) (u expired, err error) {
	err = row.Scan(&u.blob.ID, &u.at.Tenant, &u.at.Project, &u.blob.Handle, &u.state, &u.covered)
	return u, err
}

// endUpload repeats the abort of an upload that was aborted already: its process may have been killed in between, and a
// completion may have joined the parts at the same time. What is not known stays in the object store.
func (s *Service) endUpload(ctx context.Context, u expired) error {
	if u.state == Open {
		open, err := s.expire(ctx, u)
		if err != nil || !open { // it was extended
			return err
		}
	}
	if u.state != Completed && u.covered {
		if err := errors.Join(s.Blobs.Abort(ctx, u.blob), s.Blobs.Delete(ctx, u.blob.ID)); err != nil {
			return err
		}
	}
	_, err := s.DB.Exec(ctx, deleteUpload, u.blob.ID)
	return err
}

func (s *Service) expire(ctx context.Context, u expired) (open bool, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := s.lockClosed(ctx, tx, u.at); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, expireUpload, u.blob.ID)
		if open = tag.RowsAffected() > 0; err != nil || !open {
			return err
		}
		return s.unreserve(ctx, tx, u.at, u.blob.ID)
	})
	return open, err
}
