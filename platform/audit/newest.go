package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Newest returns the time of the newest audit row, or zero without one. before, if not nil, excludes the rows from that time on.
func Newest(ctx context.Context, q pg.Queryer, before *time.Time) (time.Time, error) {
	var at pgtype.Timestamptz
	if err := q.QueryRow(ctx, selectNewest, before).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("reading the newest audit row: %w", err)
	}
	return at.Time, nil
}
