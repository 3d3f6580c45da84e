package recording

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/envelope/reseal"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// DeleteRecordings deletes some recordings without output since an age, and returns how many. Their chunks cannot be opened any
// more. Recordings have their own number of days, which is shorter than a month, so the tables have no partitions.
func DeleteRecordings(ctx context.Context, q pg.Queryer, age time.Duration, most int) (int64, error) {
	tag, err := q.Exec(ctx, deleteRecordings, age, most)
	if err != nil {
		return 0, fmt.Errorf("deleting old recordings: %w", err)
	}
	return tag.RowsAffected(), nil
}

// DeleteChunks deletes some chunks of deleted recordings, and returns how many.
func DeleteChunks(ctx context.Context, q pg.Queryer, age time.Duration, most int) (int64, error) {
	tag, err := q.Exec(ctx, deleteChunks, age, most)
	if err != nil {
		return 0, fmt.Errorf("deleting chunks of recordings: %w", err)
	}
	return tag.RowsAffected(), nil
}

// keys are sealed by the data keys of recordings.
var keys = reseal.Secrets{
	What: "the keys of recordings", List: selectOldKeys, Replace: resealKey, Count: countOldKeys,
	Places: func(id uuid.UUID) []envelope.Place { return []envelope.Place{keyAt(id)} },
}

// Reseal seals the keys of recordings with the data key id, in transactions of at most limit rows, and returns their number.
func (s *Service) Reseal(ctx context.Context, id string, limit int) (int, error) {
	return keys.Again(ctx, s.DB, s.Seal, id, limit)
}

// SealedBefore counts the recordings whose key another data key than id has sealed.
func SealedBefore(ctx context.Context, q pg.Queryer, id string) (int, error) {
	return keys.Before(ctx, q, id)
}
