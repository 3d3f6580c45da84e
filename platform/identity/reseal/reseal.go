// Package reseal seals the stored secrets of identity again after a rotation of the data keys.
package reseal

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Service seals with the data keys of identity.
type Service struct{ *identity.Service }

// sealedColumn is a column with envelopes. Its statements list and replace the envelopes of older keys; a row
// is named by one text.
type sealedColumn struct {
	list, replace, count string
	place                func(row string) envelope.Place
}

func sealedColumns() []sealedColumn {
	return []sealedColumn{
		{selectOldRefresh, resealRefresh, countOldRefresh, func(row string) envelope.Place {
			return identity.GrantAt(ids.From[ids.Session](uuid.MustParse(row)))
		}},
		{selectOldReplies, resealReply, countOldReplies, func(row string) envelope.Place {
			return envelope.Place{Table: "idempotency_keys", Column: "body", Row: strings.ReplaceAll(row, rowSeparator, " ")}
		}},
	}
}

// rowSeparator separates the parts of a primary key in the name of a row. No part contains it.
const rowSeparator = "\x1f"

// Reseal seals all stored secrets of older data keys with the key id, in transactions of at most limit rows.
// It returns the number of rows that it has sealed. A call that ends early is repeated: rows that are sealed
// already are left out. A row that does not open stays as it is and is recorded.
func (s Service) Reseal(ctx context.Context, id string, limit int) (n int, err error) {
	ctx = pg.WithScope(ctx, pg.Platform)
	for _, c := range sealedColumns() {
		for after := ""; ; {
			done, last, err := s.resealSome(ctx, c, envelope.Header(id), after, limit)
			n += done
			if err != nil || last == "" {
				if err != nil {
					return n, err
				}
				break
			}
			after = last
		}
	}
	return n, nil
}

// resealSome seals the next rows of a column again, and returns the last of them, or "" after all.
func (s Service) resealSome(ctx context.Context, c sealedColumn, header []byte, after string, limit int) (done int, last string, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, c.list, header, after, limit)
		if err != nil {
			return err
		}
		type sealedRow struct {
			Row    string
			Sealed []byte
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sealedRow])
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		for _, r := range list {
			last = r.Row
			text, err := s.Seal.Open(ctx, r.Sealed, c.place(r.Row))
			if err != nil {
				continue // recorded
			}
			b.Queue(c.replace, r.Row, s.Seal.Seal(text, c.place(r.Row)))
			done++
		}
		if len(list) < limit {
			last = ""
		}
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		failpoint.Hit("identity.reseal.before_commit")
		return nil
	})
	if err != nil {
		return 0, "", fmt.Errorf("sealing stored secrets again: %w", err)
	}
	failpoint.Hit("identity.reseal.after_commit")
	return done, last, nil
}

// SealedBefore counts the stored secrets that another key than id has sealed.
func SealedBefore(ctx context.Context, db pg.Queryer, id string) (n int, err error) {
	for _, c := range sealedColumns() {
		var some int
		if err := db.QueryRow(ctx, c.count, envelope.Header(id)).Scan(&some); err != nil {
			return 0, fmt.Errorf("counting stored secrets: %w", err)
		}
		n += some
	}
	return n, nil
}
