package revision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Written contains the times at which an object was created and last changed, and the revision of the change.
type Written struct {
	CreatedAt, UpdatedAt time.Time
	Revision             int64 // 0: the API, or a revision that was deleted
	Status, Author       string
	Message              string
}

// Written reads when and by which revision an object was changed.
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
