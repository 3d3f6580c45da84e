package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Image is an operating system image that nodes can be given.
type Image struct {
	ID          ids.Object
	Name        string
	DisplayName string
	Digest      string
	Default     bool
}

// DeclareImage stores the desired spec of an image, which encodes as JSON, as the applied one. At most one image is the default: a new
// default clears the flag of the former one.
func (s *Service) DeclareImage(ctx context.Context, tx pgx.Tx, id ids.Object, name string, spec any) error {
	b := &pgx.Batch{}
	b.Queue(clearDefault, name, spec)
	b.Queue(upsertImage, id.UUID, name, spec)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("declaring image %s: %w", name, err)
	}
	return nil
}

// RetireImage hides the image from new use.
func (s *Service) RetireImage(ctx context.Context, tx pgx.Tx, id ids.Object) error {
	if _, err := tx.Exec(ctx, retireImage, id.UUID); err != nil {
		return fmt.Errorf("retiring image %s: %w", id, err)
	}
	return nil
}

// Images lists images in use by name, after the given one.
func (s *Service) Images(ctx context.Context, after string, limit int) ([]Image, error) {
	rows, err := s.DB.Query(ctx, selectImages, after, limit)
	if err != nil {
		return nil, fmt.Errorf("listing images: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (i Image, err error) {
		err = row.Scan(&i.ID.UUID, &i.Name, &i.DisplayName, &i.Digest, &i.Default)
		return i, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing images: %w", err)
	}
	return all, nil
}
