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

// AbortForgotten aborts uploads of the object store that have no row: the process that began them was killed.
func (s *Service) AbortForgotten(ctx context.Context) error {
	life := max(forgottenAfter, s.UploadLife())
	var batch []blob.Upload
	for u, err := range s.Blobs.Uploads(ctx, s.Clock.Now().Add(-life)) {
		if err != nil {
			return fmt.Errorf("listing the uploads of the object store: %w", err)
		}
		if batch = append(batch, u); len(batch) == uploadBatch {
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
