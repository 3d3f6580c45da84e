package desired

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Written is when a declaration was made and last changed, and by which revision
// where one did it.
type Written struct {
	CreatedAt, UpdatedAt time.Time
	Revision             int64 // 0: the API, or a revision that is no longer kept
	Status, Author       string
	Message              string
}

// Last reads an object by name as it is declared, or as it was last while what
// is left of it disappears: how that goes is what somebody then asks.
func (s *Store) Last(ctx context.Context, kind Kind, scope, name string) (Object, error) {
	return scanOne(s.DB.Query(ctx, selectLast, kind, scope, name))
}

// Written reads it for one object.
func (s *Store) Written(ctx context.Context, q pg.Queryer, uid ids.Object) (w Written, err error) {
	rows, err := q.Query(ctx, selectWritten, uid)
	if err != nil {
		return Written{}, fmt.Errorf("reading when %s was written: %w", uid, err)
	}
	w, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Written])
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Written{}, fmt.Errorf("reading when %s was written: %w", uid, err)
	}
	return w, nil
}
