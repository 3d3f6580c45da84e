package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Seal writes a checkpoint for each account that has entries since its last one:
// its balance, so that reading it adds up a few entries only, and a hash over all
// that came before, so that a change to it shows. It may run at any time, by any
// number of processes, and goes on where one that was killed has stopped; when
// postings are under way for long it gives up (see Busy), and the next run does it.
func (s *Service) Seal(ctx context.Context) error {
	last, err := s.lastPosted(ctx)
	if err != nil {
		return err
	}
	for after := uuid.Nil; err == nil; {
		after, err = s.sealSome(ctx, last, after)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return fmt.Errorf("sealing balances up to entry %d: %w", last, err)
}

// sealAtOnce is the number of accounts that one transaction of Seal processes. A run that is interrupted
// therefore loses little work.
const sealAtOnce = 1_000

// sealSome seals the accounts that follow one, and returns the last of them.
func (s *Service) sealSome(ctx context.Context, last int64, after uuid.UUID) (next uuid.UUID, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(patient)
		b.Queue(lockSeals)
		b.Queue(sealAccounts, last, after, sealAtOnce).QueryRow(func(row pgx.Row) error { return row.Scan(&next) })
		return tx.SendBatch(ctx, b).Close()
	})
	return next, err
}

// lastPosted returns an entry id below which nothing can still appear. Ids are
// given out before their transactions commit, so the highest visible one is not
// it while anyone is posting.
func (s *Service) lastPosted(ctx context.Context) (last int64, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, impatient); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, lockEntries); err != nil {
			return err
		}
		return tx.QueryRow(ctx, selectLastID).Scan(&last)
	})
	if err != nil {
		return 0, fmt.Errorf("waiting for open postings: %w", err)
	}
	return last, nil
}

// Busy reports whether Seal gave up because of open transactions.
func Busy(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "55P03" // lock_not_available
}
