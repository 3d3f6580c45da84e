package desired

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// RaiseFences raises the fences of objects to at least these and makes the objects due. A node has executed decisions that a
// restored database does not know, and rejects those with lower fences.
func RaiseFences(ctx context.Context, tx pgx.Tx, to map[uuid.UUID]int64) (raised int, err error) {
	uids, fences := make([]uuid.UUID, 0, len(to)), make([]int64, 0, len(to))
	for uid, fence := range to {
		uids, fences = append(uids, uid), append(fences, fence)
	}
	if err := tx.QueryRow(ctx, raiseFences, uids, fences).Scan(&raised, nil); err != nil {
		return 0, fmt.Errorf("raising fences: %w", err)
	}
	return raised, nil
}
