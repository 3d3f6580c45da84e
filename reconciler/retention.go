package reconciler

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// DeleteHealed deletes drift that was healed before an age, at most limit rows. One open drift per field is a unique index
// over all rows, so the table has no partitions.
func DeleteHealed(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deleteDrift, age, limit)
	if err != nil {
		return 0, fmt.Errorf("deleting healed drift: %w", err)
	}
	return tag.RowsAffected(), nil
}
