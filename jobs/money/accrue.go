package money

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// Accrue cuts a tick and charges every one that is not charged yet. A pass is one
// statement, and exactly once by its row; the job is only its trigger.
type Accrue struct{}

// Kind names the job to River.
func (Accrue) Kind() string { return "accrue" }

// InsertOpts makes accrual jobs not unique. If they were unique, the job of a killed worker would
// block all others until River rescues it after 90 s. A pass that runs at the same time as another
// one does nothing.
func (Accrue) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: ledger.QueueBilling, MaxAttempts: 5}
}

type accrue struct {
	river.WorkerDefaults[Accrue]

	Deps
}

func (w *accrue) Work(ctx context.Context, job *river.Job[Accrue]) error {
	if err := w.Metering.Cut(ctx); err != nil {
		return err
	}
	ticks, err := w.Metering.Uncharged(ctx, w.DB)
	if err != nil {
		return err
	}
	// Each tick is a commit of its own: after hours without a worker, what is
	// charged by the time of a crash stays charged.
	for ; len(ticks) > 1 && err == nil; ticks = ticks[1:] {
		err = pgx.BeginFunc(ctx, w.DB, func(tx pgx.Tx) error { return w.charge(ctx, tx, ticks[0]) })
	}
	if err != nil {
		return err
	}
	err = riverjob.Finish(ctx, w.DB, job, "accrue", func(tx pgx.Tx) error {
		if len(ticks) == 0 {
			return nil
		}
		return w.charge(ctx, tx, ticks[0])
	})
	if err == nil {
		w.Hints.Send(event.Topic)
		w.Desired.Hint()
	}
	return err
}

func (w *accrue) charge(ctx context.Context, tx pgx.Tx, tick metering.Tick) error {
	_, done, err := w.Metering.Charge(ctx, tx, tick)
	if err != nil {
		return fmt.Errorf("accruing: %w", err)
	}
	if !done {
		return nil // another pass is at it
	}
	// Queue the job in the same commit, so that every new balance is checked. All tenants are
	// checked, because a lost job may have been for any of them.
	_, err = river.ClientFromContext[pgx.Tx](ctx).InsertTx(ctx, tx, ledger.CheckRunway{}, nil)
	return err
}
