package webhook

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

type sealedRow struct {
	ID                 uuid.UUID
	Secret, PreviousOf []byte
}

// Reseal seals the secrets of older data keys with the key id, in transactions of at most limit rows, and returns the
// number of endpoints. A row that does not open stays as it is and is recorded.
func (s *Service) Reseal(ctx context.Context, id string, limit int) (n int, err error) {
	ctx = pg.WithScope(ctx, pg.Platform)
	for after, done := uuid.Nil, false; !done && err == nil; {
		err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
			rows, err := pg.List(ctx, tx, "sealed secrets", selectOldSecrets, pgx.RowToStructByPos[sealedRow], envelope.Header(id), after, limit)
			if err != nil {
				return err
			}
			done = len(rows) < limit
			b := &pgx.Batch{}
			for _, r := range rows {
				after = r.ID
				if s.queueReseal(ctx, b, r) {
					n++
				}
			}
			return tx.SendBatch(ctx, b).Close()
		})
	}
	if err != nil {
		return n, fmt.Errorf("sealing the secrets of webhooks again: %w", err)
	}
	return n, nil
}

func (s *Service) queueReseal(ctx context.Context, b *pgx.Batch, r sealedRow) bool {
	id := ids.From[ids.Webhook](r.ID)
	secret, err := s.Seal.Open(ctx, r.Secret, secretAt(id))
	if err != nil {
		return false
	}
	var previous []byte
	if r.PreviousOf != nil {
		old, err := s.Seal.Open(ctx, r.PreviousOf, previousAt(id))
		if err != nil {
			return false
		}
		previous = s.Seal.Seal(old, previousAt(id))
	}
	b.Queue(resealSecrets, r.ID, s.Seal.Seal(secret, secretAt(id)), previous)
	return true
}

// SealedBefore counts the endpoints with a secret of another data key than id.
func SealedBefore(ctx context.Context, q pg.Queryer, id string) (n int, err error) {
	if err = q.QueryRow(ctx, countOldSecrets, envelope.Header(id)).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the secrets of webhooks: %w", err)
	}
	return n, nil
}
