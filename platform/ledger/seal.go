package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// sealEvery is how long an account's tail may grow before it is summed up: a
// balance adds at most about this many rows, some 0.2 ms.
const sealEvery = 1_000

// Seal writes a checkpoint for each account whose tail has grown long. It may
// run at any time, by any number of processes; when postings are under way it
// gives up, and the next run does it.
func (s *Service) Seal(ctx context.Context) error {
	return s.seal(ctx, sealEvery)
}

func (s *Service) seal(ctx context.Context, least int) error {
	last, err := s.lastPosted(ctx)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, patient); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sealCheckpoint, last, least)
		return err
	})
	if err != nil {
		return fmt.Errorf("sealing balances up to entry %d: %w", last, err)
	}
	return nil
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

// Busy tells whether Seal gave up because of open postings.
func Busy(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "55P03" // lock_not_available
}
