package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// uploadBatch is the number of uploads that one statement compares with their rows.
const uploadBatch = 500

// forgottenAfter is longer than the object store or the database may delay a request.
const forgottenAfter = 24 * time.Hour

// AbortForgotten aborts uploads of the object store that have no row: the process that began them was killed. It leaves those that
// a restored database may not know.
func (s *Service) AbortForgotten(ctx context.Context) error {
	life := max(forgottenAfter, s.UploadLife())
	var batch []blob.Upload
	var left int64
	for u, err := range s.Blobs.Uploads(ctx, s.Clock.Now().Add(-life)) {
		if err != nil {
			return fmt.Errorf("listing the uploads of the object store: %w", err)
		}
		if batch = append(batch, u); len(batch) == uploadBatch {
			n, err := s.abortWithoutRow(ctx, batch)
			if err != nil {
				return err
			}
			left += n
			batch = nil
		}
	}
	n, err := s.abortWithoutRow(ctx, batch)
	if err != nil {
		return err
	}
	if _, err := s.DB.Exec(ctx, countLeft, left+n); err != nil {
		return fmt.Errorf("counting the uploads of the object store: %w", err)
	}
	return nil
}

func (s *Service) abortWithoutRow(ctx context.Context, batch []blob.Upload) (left int64, err error) {
	keys, since, byID := make([]uuid.UUID, 0, len(batch)), make([]time.Time, 0, len(batch)), make(map[uuid.UUID][]blob.Upload, len(batch))
	for _, u := range batch {
		keys, since, byID[u.ID] = append(keys, u.ID), append(since, begun(u.ID, time.Time{})), append(byID[u.ID], u)
	}
	unknown, err := pg.List(ctx, s.DB, "uploads", selectWithoutRow, pgx.RowToStructByPos[stray], keys, since, clocksDiffer)
	if err != nil {
		return 0, err
	}
	for _, stray := range unknown {
		uploads := byID[stray.Key]
		delete(byID, stray.Key) // an id can be in the list several times
		if !stray.Covered {
			left += int64(len(uploads))
			continue
		}
		for _, u := range uploads {
			err = errors.Join(err, s.Blobs.Abort(ctx, u))
		}
	}
	return left, err
}
