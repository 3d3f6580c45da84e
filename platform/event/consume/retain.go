package consume

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// afterEvents is added to the retention of events: their partitions are dropped up to a month later, and
// until then a lost stream can be filled with them.
const afterEvents = 31 * 24 * time.Hour

// DeleteHeads deletes some heads of aggregates whose events are not stored any more. Each event of an
// aggregate updates its row, so the table has no partitions.
func DeleteHeads(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	return remove(ctx, q, "heads of aggregates", deleteHeads, age+afterEvents, limit)
}

// DeleteLetters deletes some resolved dead letters, and failures that have no dead letter. An unresolved dead
// letter is stored for ever, so the table has no partitions.
func DeleteLetters(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	return remove(ctx, q, "resolved dead letters", deleteLetters, age, limit)
}

// DeleteReplays deletes some completed replays. Operators request few.
func DeleteReplays(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	return remove(ctx, q, "completed replays", deleteReplays, age, limit)
}

func remove(ctx context.Context, q pg.Queryer, what, sql string, age time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, sql, age, limit)
	if err != nil {
		return 0, fmt.Errorf("deleting %s: %w", what, err)
	}
	return tag.RowsAffected(), nil
}
