package recording

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/envelope"
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

type sealedKey struct {
	ID  uuid.UUID
	Key []byte
}

// Reseal seals the keys of recordings with the newest data key, in transactions of at most limit rows, and returns their number.
// A key that does not open stays as it is and is recorded.
func (s *Service) Reseal(ctx context.Context, id string, limit int) (n int, err error) {
	for after, done := uuid.Nil, false; !done && err == nil; {
		err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
			rows, err := pg.List(ctx, tx, "keys of recordings", selectOldKeys, pgx.RowToStructByPos[sealedKey], envelope.Header(id), after, limit)
			if err != nil {
				return err
			}
			done = len(rows) < limit
			b := &pgx.Batch{}
			for _, r := range rows {
				after = r.ID
				if key, err := s.Seal.Open(ctx, r.Key, keyAt(r.ID)); err == nil {
					b.Queue(resealKey, r.ID, s.Seal.Seal(key, keyAt(r.ID)))
					n++
				}
			}
			return tx.SendBatch(ctx, b).Close()
		})
	}
	if err != nil {
		return n, fmt.Errorf("sealing the keys of recordings again: %w", err)
	}
	return n, nil
}

// SealedBefore counts the recordings whose key another data key than id has sealed.
func SealedBefore(ctx context.Context, q pg.Queryer, id string) (n int, err error) {
	if err = q.QueryRow(ctx, countOldKeys, envelope.Header(id)).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the keys of recordings: %w", err)
	}
	return n, nil
}
