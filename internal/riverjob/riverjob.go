// Package riverjob contains what the jobs of all packages share.
package riverjob

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/pg"
)

const (
	// QueueMaintenance is the queue of periodic jobs whose effect no request waits for.
	QueueMaintenance = "maintenance"
	// QueueNotify is the queue of e-mails. A webhook that was queued before webhooks had their own queue may be in it, too.
	QueueNotify = "notify"
	// QueueWebhook is the queue of webhooks, whose slow receivers delay no e-mail.
	QueueWebhook = "webhook"
	// RescueAfter is the time after which River starts the job of a killed worker again: three timeouts of
	// a job. River's default of an hour outlasts every state's SLA.
	RescueAfter = 90 * time.Second
)

// Unfinished leaves out the state completed, which River includes by default. A job could not be queued
// again otherwise, and the loop could not repeat a request after a node has lost its effect.
func Unfinished() []rivertype.JobState {
	return []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
		rivertype.JobStateRunning, rivertype.JobStateScheduled,
	}
}

// Finish runs an effect and ends its job in one commit. A crash before the commit
// leaves neither, one after it leaves both.
func Finish[T river.JobArgs](ctx context.Context, db pg.DB, job *river.Job[T], point string, effect func(tx pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if err := effect(tx); err != nil {
			return err
		}
		if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
			return fmt.Errorf("completing job: %w", err)
		}
		failpoint.Hit("job." + point + ".before_commit")
		return nil
	})
	if err == nil {
		failpoint.Hit("job." + point + ".after_commit")
	}
	return err
}
