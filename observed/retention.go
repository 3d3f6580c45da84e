package observed

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// deleteGone spares rows without a proof: an operator may still have to find out what a node has left.
const deleteGone = `
	DELETE FROM observed_allocations WHERE (allocation_id, node_id) IN (
		SELECT allocation_id, node_id FROM observed_allocations
		WHERE phase = 'gone' AND proof IS NOT NULL AND observed_at < now() - $1::interval LIMIT $2)`

// ForgetAllocations deletes some rows of allocations that their node proved gone before an age, and returns how many. A
// late report of the node stores such a row again. Each allocation has one row for each node, over all ages, so that the
// table has no partitions.
func ForgetAllocations(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deleteGone, age, limit)
	if err != nil {
		return 0, fmt.Errorf("deleting observations of allocations: %w", err)
	}
	return tag.RowsAffected(), nil
}
