package payment

import (
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// ProcessEvent asks for one event of the provider to be worked on.
type ProcessEvent struct {
	Event string `json:"event" river:"unique"`
}

// Kind names the job to River.
func (ProcessEvent) Kind() string { return "payment_event" }

// InsertOpts keeps one for each event waiting or at work. Of a worker that was
// killed the sweep asks again, if River has not.
func (ProcessEvent) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queue, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: unfinished()}}
}

// SettleRefund asks the provider to give a card its money, and writes down what
// came of it.
type SettleRefund struct {
	Refund ids.Refund `json:"refund" river:"unique"`
}

// Kind names the job to River.
func (SettleRefund) Kind() string { return "payment_refund" }

// InsertOpts keeps one for each refund waiting or at work.
func (SettleRefund) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queue, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: unfinished()}}
}

const queue = "billing"

// unfinished leaves out completed, which River counts by default: nothing could
// be asked for again.
func unfinished() []rivertype.JobState {
	return []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
		rivertype.JobStateRunning, rivertype.JobStateScheduled,
	}
}
