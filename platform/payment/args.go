package payment

import (
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// ProcessEvent processes one event of the provider.
type ProcessEvent struct {
	Event string `json:"event" river:"unique"`
}

// Kind names the job to River.
func (ProcessEvent) Kind() string { return "payment_event" }

// InsertOpts allows one waiting or running job for each event. The sweep queues the event again after a
// worker was killed, if River has not.
func (ProcessEvent) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queue, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: Unfinished()}}
}

// RecordRefund sends a refund to the provider, and stores the result.
type RecordRefund struct {
	Refund ids.Refund `json:"refund" river:"unique"`
}

// Kind names the job to River.
func (RecordRefund) Kind() string { return "payment_refund" }

// InsertOpts allows one waiting or running job for each refund.
func (RecordRefund) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queue, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: Unfinished()}}
}

const queue = "billing"

// Unfinished leaves out the state completed, which River includes by default. A job could not be queued
// again otherwise.
func Unfinished() []rivertype.JobState {
	return []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
		rivertype.JobStateRunning, rivertype.JobStateScheduled,
	}
}
