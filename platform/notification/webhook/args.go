package webhook

import (
	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
)

// Workers is the number of jobs of the queue that run at the same time in a process. They wait for receivers, so they
// are more than those of other queues.
const Workers = 128

// DeliverWebhook sends what is due to an endpoint. There is one job of an endpoint at most, so that a slow receiver
// occupies one worker and delays no other one.
type DeliverWebhook struct {
	Endpoint uuid.UUID `json:"endpoint" river:"unique"`
}

// Kind names the job to River.
func (DeliverWebhook) Kind() string { return "deliver_webhook" }

// maxAttempts is that of the job and not of a delivery: it fails only if PostgreSQL does.
const maxAttempts = 10_000

// InsertOpts allows one unfinished job for each endpoint.
func (DeliverWebhook) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueWebhook, MaxAttempts: maxAttempts, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

// RetryWebhooks inserts the jobs of endpoints with deliveries that are due again.
type RetryWebhooks struct{}

// Kind names the job to River.
func (RetryWebhooks) Kind() string { return "retry_webhooks" }

// InsertOpts allows one waiting job at most.
func (RetryWebhooks) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}
