package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
)

type deliverWebhook struct {
	river.WorkerDefaults[webhook.DeliverWebhook]

	d *Deps
}

const (
	// deliverTimeout is above the time of a job and of its last request.
	deliverTimeout = 45 * time.Second
	// busyPause is the time after which a job tries again to find a free worker for a failing endpoint.
	busyPause = time.Second
	// deliverRetry is the pause after PostgreSQL was not available. River's pauses grow to days.
	deliverRetry = 10 * time.Second
	// unopenedPause is the pause after a secret that does not open. River stores no error of it with the job.
	unopenedPause = 10 * time.Minute
)

// Timeout limits a job.
func (*deliverWebhook) Timeout(*river.Job[webhook.DeliverWebhook]) time.Duration {
	return deliverTimeout
}

// NextRetry returns the time of the next attempt of a job that has failed.
func (w *deliverWebhook) NextRetry(*river.Job[webhook.DeliverWebhook]) time.Time {
	return w.d.Clock.Now().Add(deliverRetry)
}

// Work sends what is due, and queues the next job if something still is. A worker that is killed after a request and before
// its result was stored sends the event again with the same id.
func (w *deliverWebhook) Work(ctx context.Context, job *river.Job[webhook.DeliverWebhook]) error {
	id := ids.From[ids.Webhook](job.Args.Endpoint)
	err := w.d.WebhookEndpoints.Deliver(ctx, id)
	switch {
	case errors.Is(err, webhook.ErrBusy):
		return river.JobSnooze(busyPause)
	case errs.CodeOf(err) == errs.DecryptionFailed: // recorded; it opens again only after an operator has acted
		return river.JobSnooze(unopenedPause)
	case err != nil:
		return fmt.Errorf("sending to webhook %s: %w", id, err)
	}
	var now bool
	err = riverjob.Finish(ctx, w.d.DB, job, "webhook", func(tx pgx.Tx) (err error) {
		now, err = w.d.WebhookEndpoints.StoreDue(ctx, tx, id)
		return err
	})
	if err == nil && now {
		err = w.d.WebhookEndpoints.Continue(ctx, id)
	}
	return err
}

type retryWebhooks struct {
	river.WorkerDefaults[webhook.RetryWebhooks]

	d *Deps
}

// Work queues the jobs of endpoints with deliveries that are due again.
func (w *retryWebhooks) Work(ctx context.Context, _ *river.Job[webhook.RetryWebhooks]) error {
	return w.d.WebhookEndpoints.QueueRetries(ctx)
}
