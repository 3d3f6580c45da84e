package reconciler

import (
	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// The queues of the loop's jobs, so that a flood of one kind of work does not
// hold up another.
const (
	QueueProvision = "provision"
	QueueRecord    = "record"
)

// Every kind carries Ask, which time of asking it belongs to. A worker that was
// killed leaves its job running, as far as River knows, until the rescuer comes
// after minutes: without Ask the loop's next question would be dropped as the
// same one, and a lost job would cost minutes instead of seconds.

// EnsureAllocation asks for one allocation's task to be in its node's mailbox.
type EnsureAllocation struct {
	Allocation ids.Allocation `json:"allocation" river:"unique"`
	Generation int64          `json:"generation" river:"unique"`
	Fence      int64          `json:"fence" river:"unique"`
	Epoch      int64          `json:"epoch" river:"unique"`
	Ask        int64          `json:"ask" river:"unique"`
	Reason     string         `json:"reason"`
}

// ReleaseAllocation asks for the order to let go of one allocation to be in its
// node's mailbox. Generation 0 means that it is not declared at all.
type ReleaseAllocation struct {
	Allocation ids.Allocation `json:"allocation" river:"unique"`
	Node       ids.Node       `json:"node"`
	Generation int64          `json:"generation" river:"unique"`
	Fence      int64          `json:"fence" river:"unique"`
	Epoch      int64          `json:"epoch" river:"unique"`
	Ask        int64          `json:"ask" river:"unique"`
	Reason     string         `json:"reason"`
}

// ProbeNode asks a node for a whole report.
type ProbeNode struct {
	Node   ids.Node `json:"node" river:"unique"`
	Ask    int64    `json:"ask" river:"unique"`
	Reason string   `json:"reason"`
}

// RecordAllocation asks the allocation room to write down what was observed.
type RecordAllocation struct {
	Allocation ids.Allocation `json:"allocation" river:"unique"`
	Event      plan.Trigger   `json:"event" river:"unique"`
	Generation int64          `json:"generation" river:"unique"`
	Fence      int64          `json:"fence" river:"unique"`
	Ask        int64          `json:"ask" river:"unique"`
	Reason     string         `json:"reason"`
}

// RecordNode asks the inventory to write down a node's silence or return.
type RecordNode struct {
	Node   ids.Node     `json:"node" river:"unique"`
	Event  plan.Trigger `json:"event" river:"unique"`
	Ask    int64        `json:"ask" river:"unique"`
	Reason string       `json:"reason"`
}

// ApplyObject asks the room of a declaration to carry it out, or to let it go.
type ApplyObject struct {
	ObjectKind desired.Kind `json:"object_kind" river:"unique"`
	Object     uuid.UUID    `json:"object" river:"unique"`
	Generation int64        `json:"generation" river:"unique"`
	Epoch      int64        `json:"epoch" river:"unique"`
	Ask        int64        `json:"ask" river:"unique"`
	Reason     string       `json:"reason"`
}

// Kind names the job to River.
func (EnsureAllocation) Kind() string  { return "ensure_allocation" }
func (ReleaseAllocation) Kind() string { return "release_allocation" }
func (ProbeNode) Kind() string         { return "probe_node" }
func (RecordAllocation) Kind() string  { return "record_allocation" }
func (RecordNode) Kind() string        { return "record_node" }
func (ApplyObject) Kind() string       { return "apply_object" }

func (EnsureAllocation) InsertOpts() river.InsertOpts  { return opts(QueueProvision) }
func (ReleaseAllocation) InsertOpts() river.InsertOpts { return opts(QueueProvision) }
func (ProbeNode) InsertOpts() river.InsertOpts         { return opts(QueueProvision) }
func (RecordAllocation) InsertOpts() river.InsertOpts  { return opts(QueueRecord) }
func (RecordNode) InsertOpts() river.InsertOpts        { return opts(QueueRecord) }
func (ApplyObject) InsertOpts() river.InsertOpts       { return opts(QueueRecord) }

// Five tries: the loop asks again, and is the real retry.
const maxAttempts = 5

func opts(queue string) river.InsertOpts {
	return river.InsertOpts{
		Queue:       queue,
		MaxAttempts: maxAttempts,
		UniqueOpts:  river.UniqueOpts{ByArgs: true, ByState: unfinished()},
	}
}

// unfinished leaves out completed, which River counts by default: the loop could
// not ask again when a host forgets what it did.
func unfinished() []rivertype.JobState {
	return []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
		rivertype.JobStateRunning, rivertype.JobStateScheduled,
	}
}

// job turns an action into the job that carries it out, and nothing else: the
// action has already decided everything.
func job(a plan.Action, ask int64) river.JobArgs {
	allocation, node := ids.Allocation{UUID: a.Object}, a.Node
	switch {
	case a.Verb == plan.Probe:
		return ProbeNode{Node: node, Ask: ask, Reason: a.Reason}
	case a.Kind == desired.KindAllocation && a.Verb == plan.Ensure:
		return EnsureAllocation{allocation, a.Generation, a.Fence, a.Epoch, ask, a.Reason}
	case a.Kind == desired.KindAllocation && a.Verb == plan.Release:
		return ReleaseAllocation{allocation, node, a.Generation, a.Fence, a.Epoch, ask, a.Reason}
	case a.Kind == desired.KindAllocation:
		return RecordAllocation{allocation, a.Event, a.Generation, a.Fence, ask, a.Reason}
	case a.Verb == plan.Record:
		return RecordNode{node, a.Event, ask, a.Reason}
	default:
		return ApplyObject{a.Kind, a.Object, a.Generation, a.Epoch, ask, a.Reason}
	}
}
