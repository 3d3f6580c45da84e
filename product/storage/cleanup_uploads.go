package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// expired is an upload whose row is not needed any more.
type expired struct {
	at    Scope
	blob  blob.Upload
	state State
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
	err = row.Scan(&u.blob.ID, &u.at.Tenant, &u.at.Project, &u.blob.Handle, &u.state)
	return u, err
}

// endUpload repeats the abort of an upload that was aborted already: its process may have been killed in between, and a
// completion may have joined the parts at the same time.
func (s *Service) endUpload(ctx context.Context, u expired) error {
	if u.state == Open {
		open, err := s.expire(ctx, u)
		if err != nil || !open { // it was extended
			return err
		}
	}
	if u.state != Completed {
		if err := errors.Join(s.Blobs.Abort(ctx, u.blob), s.Blobs.Delete(ctx, u.blob.ID)); err != nil {
			return err
		}
	}
	_, err := s.DB.Exec(ctx, deleteUpload, u.blob.ID)
	return err
}

func (s *Service) expire(ctx context.Context, u expired) (open bool, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := s.lock(ctx, tx, u.at, nil); err != nil {
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

// forgottenAfter is longer than the object store or the database may delay a request.
const forgottenAfter = 24 * time.Hour

// AbortForgotten aborts uploads of the object store that have no row: the process that began them was killed.
func (s *Service) AbortForgotten(ctx context.Context) error {
	life := max(forgottenAfter, s.Limits(ids.Tenant{}, ids.Project{}).UploadLife)
	var batch []blob.Upload
	for u, err := range s.Blobs.Uploads(ctx, s.Clock.Now().Add(-life)) {
		if err != nil {
			return fmt.Errorf("listing the uploads of the object store: %w", err)
		}
		if batch = append(batch, u); len(batch) == cleanupBatch {
			if err := s.abortWithoutRow(ctx, batch); err != nil {
				return err
			}
			batch = nil
		}
	}
	return s.abortWithoutRow(ctx, batch)
}

func (s *Service) abortWithoutRow(ctx context.Context, batch []blob.Upload) error {
	keys := make([]uuid.UUID, 0, len(batch))
	for _, u := range batch {
		keys = append(keys, u.ID)
	}
	found, err := pg.List(ctx, s.DB, "uploads", selectExisting, pgx.RowTo[uuid.UUID], keys)
	if err != nil {
		return err
	}
	existing := map[uuid.UUID]bool{}
	for _, id := range found {
		existing[id] = true
	}
	for _, u := range batch {
		if !existing[u.ID] {
			err = errors.Join(err, s.Blobs.Abort(ctx, u))
		}
	}
	return err
}
