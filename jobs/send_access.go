package jobs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
)

// SendAccess sends changed rules for logins to the nodes of active allocations.
type SendAccess struct{}

// Kind names the job to River.
func (SendAccess) Kind() string { return "send_access" }

// InsertOpts allows one waiting job at most.
func (SendAccess) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

type sendAccess struct {
	river.WorkerDefaults[SendAccess]

	d *Deps
}

func (w *sendAccess) Work(ctx context.Context, _ *river.Job[SendAccess]) error {
	return w.d.sendInBatches(ctx, "rules for logins", func(tx pgx.Tx, most int) (int, error) { return w.d.Access.Send(ctx, tx, most) })
}

// sendBatch bounds one transaction, which locks the allocations.
const sendBatch = 100

// sendInBatches gives outdated allocations new generations until a transaction finds less than a batch.
func (d *Deps) sendInBatches(ctx context.Context, what string, send func(tx pgx.Tx, most int) (sent int, err error)) error {
	for sent := sendBatch; sent == sendBatch; {
		err := pgx.BeginFunc(ctx, d.DB, func(tx pgx.Tx) (err error) {
			sent, err = send(tx, sendBatch)
			return err
		})
		if err != nil {
			return fmt.Errorf("sending %s: %w", what, err)
		}
		if sent > 0 {
			d.Desired.Hint()
		}
	}
	return nil
}
