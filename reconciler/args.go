package reconciler

import (
	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// The queues of the loop's jobs. Each kind of work has its own, so that many jobs of one kind do
// not delay the others.
const (
	QueueProvision = "provision"
	QueueRecord    = "record"
)

// Every kind of job has a request id, which counts the requests for one object. River considers the
// job of a killed worker as running until it is rescued minutes later. Without the id, River would
// drop the loop's next request as a duplicate, and a lost job would cost minutes instead of
// seconds.

// EnsureAllocation queues the task of one allocation in its node's mailbox.
type EnsureAllocation struct {
	Allocation ids.Allocation `json:"allocation" river:"unique"`
	Generation int64          `json:"generation" river:"unique"`
	Fence      int64          `json:"fence" river:"unique"`
	Epoch      int64          `json:"epoch" river:"unique"`
	RequestID  int64          `json:"ask" river:"unique"`
	Reason     string         `json:"reason"`
}

// ReleaseAllocation queues the release of one allocation in its node's mailbox. Generation 0 means
// that no desired object exists.
type ReleaseAllocation struct {
	Allocation ids.Allocation `json:"allocation" river:"unique"`
	Node       ids.Node       `json:"node"`
	Generation int64          `json:"generation" river:"unique"`
	Fence      int64          `json:"fence" river:"unique"`
	Epoch      int64          `json:"epoch" river:"unique"`
	RequestID  int64          `json:"ask" river:"unique"`
	Reason     string         `json:"reason"`
}

// ProbeNode requests a complete report from a node.
type ProbeNode struct {
	Node      ids.Node `json:"node" river:"unique"`
	RequestID int64    `json:"ask" river:"unique"`
	Reason    string   `json:"reason"`
}

// RecordAllocation requests that the allocation package records what was observed.
type RecordAllocation struct {
	Allocation ids.Allocation `json:"allocation" river:"unique"`
	Event      plan.Trigger   `json:"event" river:"unique"`
	Generation int64          `json:"generation" river:"unique"`
	Fence      int64          `json:"fence" river:"unique"`
	RequestID  int64          `json:"ask" river:"unique"`
	Reason     string         `json:"reason"`
}

// RecordNode requests that product/fleet records that a node's reports have stopped or resumed.
type RecordNode struct {
	Node      ids.Node     `json:"node" river:"unique"`
	Event     plan.Trigger `json:"event" river:"unique"`
	RequestID int64        `json:"ask" river:"unique"`
	Reason    string       `json:"reason"`
}

// ApplyObject requests that the owning package applies a desired object, or deletes what it
// created.
type ApplyObject struct {
	ObjectKind desired.Kind `json:"object_kind" river:"unique"`
	Object     uuid.UUID    `json:"object" river:"unique"`
	Generation int64        `json:"generation" river:"unique"`
	Epoch      int64        `json:"epoch" river:"unique"`
	RequestID  int64        `json:"ask" river:"unique"`
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

// maxAttempts is low: the loop requests the action again, so River's retries only bridge short
// errors.
const maxAttempts = 5

func opts(queue string) river.InsertOpts {
	return river.InsertOpts{
		Queue:       queue,
		MaxAttempts: maxAttempts,
		UniqueOpts:  river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()},
	}
}

// job turns an action into the job that carries it out, and nothing else: the
// action has already decided everything.
func job(a plan.Action, ask int64) river.JobArgs {
	allocation, node := ids.Allocation{UUID: a.Object}, a.Node
	switch {
	case a.Verb == plan.Probe:
		return ProbeNode{Node: node, RequestID: ask, Reason: a.Reason}
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
