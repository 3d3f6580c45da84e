package payment

import (
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/riverjob"
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
	return river.InsertOpts{Queue: queue, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

// RecordRefund sends a refund to the provider, and stores the result.
type RecordRefund struct {
	Refund ids.Refund `json:"refund" river:"unique"`
}

// Kind names the job to River.
func (RecordRefund) Kind() string { return "payment_refund" }

// InsertOpts allows one waiting or running job for each refund.
func (RecordRefund) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queue, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

const queue = "billing"
