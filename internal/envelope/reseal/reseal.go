// Package reseal seals the secrets of a table again after a rotation of the data keys.
package reseal

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Sealer opens and seals secrets.
type Sealer interface {
	Seal(secret []byte, at envelope.Place) []byte
	Open(ctx context.Context, sealed []byte, at envelope.Place) ([]byte, error)
}

// Secrets are the secrets of a table, whose rows have an id.
type Secrets struct {
	What string // in errors
	// List selects the ids and an array of the envelopes of rows with an older data key, by id. $1 is the beginning of the
	// envelopes of the newest one, $2 the last id before, $3 the limit.
	List string
	// Replace stores new envelopes: $1 is the id, and the others are in the sequence of the array. Null stays null.
	Replace string
	// Count counts the rows with an older data key. $1 is as in List.
	Count string
	// Places returns where each envelope of the array is.
	Places func(id uuid.UUID) []envelope.Place
}

type sealedRow struct {
	ID     uuid.UUID
	Sealed [][]byte
}

// Again seals secrets of older data keys with the key id, in transactions of at most limit rows, and returns the number of rows. A
// row that does not open stays as it is, and the sealer records it.
func (s Secrets) Again(ctx context.Context, db pg.DB, with Sealer, id string, limit int) (n int, err error) {
	for after, done := uuid.Nil, false; !done && err == nil; {
		err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			rows, err := pg.List(ctx, tx, s.What, s.List, pgx.RowToStructByPos[sealedRow], envelope.Header(id), after, limit)
			if err != nil {
				return err
			}
			done = len(rows) < limit
			b := &pgx.Batch{}
			for _, r := range rows {
				after = r.ID
				if again, ok := s.seal(ctx, with, r); ok {
					b.Queue(s.Replace, again...)
					n++
				}
			}
			return tx.SendBatch(ctx, b).Close()
		})
	}
	if err != nil {
		return n, fmt.Errorf("sealing %s again: %w", s.What, err)
	}
	return n, nil
}

// seal returns the parameters of Replace.
func (s Secrets) seal(ctx context.Context, with Sealer, r sealedRow) (again []any, ok bool) {
	again = []any{r.ID}
	for i, at := range s.Places(r.ID) {
		if r.Sealed[i] == nil {
			again = append(again, nil)
			continue
		}
		secret, err := with.Open(ctx, r.Sealed[i], at)
		if err != nil {
			return nil, false
		}
		again = append(again, with.Seal(secret, at))
	}
	return again, true
}

// Before counts the rows with a secret that another data key than id has sealed.
func (s Secrets) Before(ctx context.Context, q pg.Queryer, id string) (n int, err error) {
	if err = q.QueryRow(ctx, s.Count, envelope.Header(id)).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting %s: %w", s.What, err)
	}
	return n, nil
}
