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

// accessBatch bounds one transaction, which locks the allocations.
const accessBatch = 100

func (w *sendAccess) Work(ctx context.Context, _ *river.Job[SendAccess]) error {
	for sent := accessBatch; sent == accessBatch; {
		err := pgx.BeginFunc(ctx, w.d.DB, func(tx pgx.Tx) (err error) {
			sent, err = w.d.Access.Send(ctx, tx, accessBatch)
			return err
		})
		if err != nil {
			return fmt.Errorf("sending the rules for logins: %w", err)
		}
		if sent > 0 {
			w.d.Desired.Hint()
		}
	}
	return nil
}
