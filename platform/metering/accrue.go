package metering

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Tick is one accrual window: usage in [From, To) is charged in one pass. A tick lies within one day of UTC.
type Tick struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Cut ends the current tick. Cut and the transactions that open or close an interval exclude each other,
// so nothing before the end of the tick can change afterwards. Cut does nothing if the last tick is less
// than a second old, if there is no interval yet, or if another transaction blocks its lock for too long.
// The next trigger then cuts a longer tick.
func (s *Service) Cut(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := s.cut(ctx, tx); err != nil {
			return err
		}
		failpoint.Hit("metering.cut.before_commit")
		return nil
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == lockNotAvailable {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cutting a tick: %w", err)
	}
	failpoint.Hit("metering.cut.after_commit")
	return nil
}

// waits limits the time for which one slow transaction blocks all others through Cut.
const waits = time.Second

const lockNotAvailable = "55P03"

func (s *Service) cut(ctx context.Context, tx pgx.Tx) error {
	b := &pgx.Batch{}
	b.Queue(waitBriefly, strconv.FormatInt(cmp.Or(s.waits, waits).Milliseconds(), 10))
	b.Queue(lockCut)
	b.Queue(insertTicks)
	return tx.SendBatch(ctx, b).Close()
}

// Uncharged lists the ticks that were cut and not charged yet, in order.
func (s *Service) Uncharged(ctx context.Context, q pg.Queryer) ([]Tick, error) {
	rows, err := q.Query(ctx, selectUncharged)
	if err != nil {
		return nil, fmt.Errorf("reading uncharged ticks: %w", err)
	}
	ticks, err := pgx.CollectRows(rows, scanTick)
	if err != nil {
		return nil, fmt.Errorf("reading uncharged ticks: %w", err)
	}
	return ticks, nil
}

func scanTick(row pgx.CollectableRow) (t Tick, err error) {
	var from, to int64
	err = row.Scan(&from, &to)
	return Tick{From: at(from), To: at(to)}, err
}

// Charge posts the usage of a tick and returns the number of transfers. A tick is charged once,
// and only after all earlier ticks. If another pass is running, Charge does nothing and done is false. A crash before
// the commit of tx leaves the tick uncharged, and the next pass charges it.
func (s *Service) Charge(ctx context.Context, tx pgx.Tx, t Tick) (transfers int, done bool, err error) {
	var mine bool
	b := &pgx.Batch{}
	b.Queue(lockCharge).QueryRow(func(row pgx.Row) error { return row.Scan(&mine) })
	b.Queue(selectNext, t.To.Unix()).QueryRow(func(row pgx.Row) error { return row.Scan(&done) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return 0, false, fmt.Errorf("locking accrual: %w", err)
	}
	if !mine || !done {
		return 0, false, nil
	}
	if err := tx.QueryRow(ctx, chargeUsage, t.From.Unix(), t.To.Unix()).Scan(&transfers); err != nil {
		return 0, false, fmt.Errorf("charging the tick up to %s: %w", t.To.Format(time.RFC3339), err)
	}
	var stored int
	if err := tx.QueryRow(ctx, chargeStored, t.From.Unix(), t.To.Unix()).Scan(&stored); err != nil {
		return 0, false, fmt.Errorf("charging stored bytes up to %s: %w", t.To.Format(time.RFC3339), err)
	}
	return transfers + stored, true, nil
}

func at(second int64) time.Time { return time.Unix(second, 0).UTC() }
