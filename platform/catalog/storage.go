package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// StorageClass is an offer to store files.
type StorageClass struct {
	ID            ids.Object
	Name          string
	DisplayName   string
	PriceMinor    money.Minor // per GiB and 720 hours
	Currency      string
	FreeGiB       int64 // of each project
	RetentionDays int   // from an empty balance to the deletion
	Default       bool
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

func scanClass(row pgx.CollectableRow) (c StorageClass, err error) {
	err = row.Scan(&c.ID.UUID, &c.Name, &c.DisplayName, &c.PriceMinor, &c.Currency, &c.FreeGiB, &c.RetentionDays, &c.Default, &c.CreatedAt, &c.UpdatedAt)
	return c, err
}

// DeclareClass stores the desired spec of a storage class, which encodes as JSON, as the applied one. A new default clears the
// flag of the former one.
func (s *Service) DeclareClass(ctx context.Context, tx pgx.Tx, id ids.Object, name string, spec any) error {
	b := &pgx.Batch{}
	b.Queue(clearDefaultClass, name, spec)
	b.Queue(upsertClass, id.UUID, name, spec)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("declaring storage class %s: %w", name, err)
	}
	return nil
}

// RetireClass withdraws a storage class.
func (s *Service) RetireClass(ctx context.Context, tx pgx.Tx, id ids.Object) error {
	if _, err := tx.Exec(ctx, retireClass, id.UUID); err != nil {
		return fmt.Errorf("retiring storage class %s: %w", id, err)
	}
	return nil
}

// StorageClasses lists the storage classes in use by name, after the given one.
func (s *Service) StorageClasses(ctx context.Context, after string, limit int) ([]StorageClass, error) {
	return pg.List(ctx, s.DB, "storage classes", selectClasses, scanClass, after, limit)
}

// DefaultClass returns the storage class of all projects, or the zero value where there is none.
func (s *Service) DefaultClass(ctx context.Context, q pg.Queryer) (StorageClass, error) {
	rows, err := q.Query(ctx, selectDefaultClass)
	if err != nil {
		return StorageClass{}, fmt.Errorf("reading the default storage class: %w", err)
	}
	class, err := pgx.CollectOneRow(rows, scanClass)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return StorageClass{}, fmt.Errorf("reading the default storage class: %w", err)
	}
	return class, nil
}

// StoredClasses returns the applied specs of these storage classes by name, without retired ones.
func (s *Service) StoredClasses(ctx context.Context, q pg.Queryer, names []string) (map[string]json.RawMessage, error) {
	return stored(ctx, q, "storage classes", selectStoredClasses, names)
}

const (
	classColumns = `id, name, spec->>'displayName', (spec->'price'->'amountMinor')::bigint, spec->'price'->>'currency', (spec->'freeGiB')::bigint,
		(spec->'retentionDays')::int, is_default, created_at, updated_at`
	selectClasses      = `SELECT ` + classColumns + ` FROM storage_classes WHERE retired_at IS NULL AND name > $1 ORDER BY name LIMIT $2`
	selectDefaultClass = `SELECT ` + classColumns + ` FROM storage_classes WHERE retired_at IS NULL AND is_default ORDER BY name LIMIT 1`

	clearDefaultClass = `
	UPDATE storage_classes SET spec = spec || '{"default": false}', updated_at = now() WHERE is_default AND name <> $1 AND ($2::jsonb->>'default')::boolean`
	upsertClass = `
	INSERT INTO storage_classes (id, name, spec) VALUES ($1, $2, $3)
	ON CONFLICT (name) DO UPDATE SET id = excluded.id, spec = excluded.spec, retired_at = NULL, updated_at = now()`
	retireClass         = `UPDATE storage_classes SET retired_at = now(), spec = spec || '{"default": false}', updated_at = now() WHERE id = $1 AND retired_at IS NULL`
	selectStoredClasses = `SELECT name, spec FROM storage_classes WHERE retired_at IS NULL AND name = ANY ($1)`
)
