package nodetask

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/protocol"
)

// DeleteEnded deletes tasks that ended before an age, at most limit of them. Tasks of an allocation stay until its release has
// succeeded: the last provisioning describes a live allocation. One unfinished task per allocation is a unique index over
// all rows, so the table has no partitions.
func DeleteEnded(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deleteTasks, age, protocol.RevokeUser, limit)
	if err != nil {
		return 0, fmt.Errorf("deleting old node tasks: %w", err)
	}
	return tag.RowsAffected(), nil
}
