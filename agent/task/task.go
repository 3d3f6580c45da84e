// Package task contains the handlers of agent tasks, one file for each type of the table in
// protocol/tasks.go.
//
// The package owns what a task does on the node. agent/runner owns admission: it verifies signature and
// fence, writes the task to the journal, and only then starts a handler.
package task

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/agent/update"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/protocol"
)

// Handlers is the registration list: one handler for each type of the table.
func Handlers() []Handler {
	return []Handler{provisionUser(), revokeUser(), rotateKeys(), probe(), healthCheck(), gpuReset(), agentUpdate()}
}

// Handler runs the tasks of one type. A nil function has nothing to do.
type Handler struct {
	Type protocol.Type

	// Supported rejects the type if this node lacks what the handler acts on.
	Supported func(Backend) error
	// Check rejects a task that the state of the node does not allow. The runner calls Check before the
	// task is in the journal, so Check must not act.
	Check func(Admission) error
	// Run executes a task that was admitted a moment ago.
	Run func(context.Context, *Execution) (Result, error)
	// Resume executes a task that a crash of the agent interrupted, or that expired while it waited for
	// the end of the task before it. The task may have acted already: Resume must reach the same end as Run.
	Resume func(context.Context, *Execution) (Result, error)

	// Steps lists the steps of the type, if it consists of steps.
	Steps func() []step.Step
	// Locks lists the GPUs that no tenant may get while the task runs.
	Locks func(protocol.Envelope) []string
	// Within limits the whole execution. Zero: each step has its own limit.
	Within time.Duration
	// Once means that a read-only task is too heavy to be executed twice, or next to another one.
	Once bool
}

// Of returns the handler of a type. A type without one has the zero Handler.
func Of(t protocol.Type) Handler {
	for _, h := range Handlers() {
		if h.Type == t {
			return h
		}
	}
	return Handler{}
}

// Steps returns the steps of a type.
func Steps(t protocol.Type) []step.Step {
	if h := Of(t); h.Steps != nil {
		return h.Steps()
	}
	return nil
}

// Backend is the part of a node that handlers act on. A nil field is missing on this node.
type Backend struct {
	Host    step.Host
	Devices Devices
	Updater *update.Updater
	// Steps returns the steps of a type. Nil means the function Steps of this package. Tests insert faults.
	Steps func(protocol.Type) []step.Step
}

// Devices are the GPUs of a node, for tasks with the scope of the node.
type Devices interface {
	gpu.Provider
	gpu.Examiner
	// Reset resets one device. It fails while a process uses the device.
	Reset(ctx context.Context, g protocol.GPU) error
}

// Supported rejects a type that this node cannot run.
func (b Backend) Supported(t protocol.Type) error {
	h := Of(t)
	switch {
	case h.Run == nil:
		return protocol.Reject(protocol.TypeUnknown, "this build cannot run %s", t)
	case h.Supported != nil:
		return h.Supported(b)
	}
	return nil
}

// Unsupported lists the types with a scope that this node cannot run.
func (b Backend) Unsupported(scope protocol.Scope) (types []protocol.Type) {
	for _, row := range protocol.TaskTypes() {
		if row.Scope == scope && b.Supported(row.Type) != nil {
			types = append(types, row.Type)
		}
	}
	return types
}

// steps returns the steps of a type on this node.
func (b Backend) steps(t protocol.Type) []step.Step {
	if b.Steps != nil {
		return b.Steps(t)
	}
	return Steps(t)
}

// StepsOf returns the steps of a task of an allocation. A task that amends a provisioning which has not
// succeeded completes it: the allocation would otherwise lack what the provisioning did not reach.
func (b Backend) StepsOf(record journal.Record, t protocol.Type) []step.Step {
	if t.Effect() == protocol.Amends {
		if base := record.Provisioning(); base != nil && !base.Succeeded() {
			return b.steps(base.Envelope.Type)
		}
	}
	return b.steps(t)
}

// Admission is the input of Check: a task, and the journal without it.
type Admission struct {
	Envelope protocol.Envelope
	Params   protocol.AllocationParams
	Record   journal.Record   // of the same allocation, or of the node
	Others   []journal.Record // of all other allocations
}

// Execution is one execution of a task. The runner sets all fields.
type Execution struct {
	Backend

	Envelope protocol.Envelope
	Clock    clock.Clock
	Log      *slog.Logger

	// Record reads the record of the task's allocation from the journal.
	Record func() journal.Record
	// Begin writes to the journal that a step begins. A step acts only after Begin returned nil: a crash
	// would otherwise leave an effect that no later start knows of. Begin fails when a newer task was
	// admitted.
	Begin func(step string) error
	// At notes the present step and its limit, for the watchdog and for reports.
	At func(step string, within time.Duration)
	// Progress reports the end of a step.
	Progress func(step string, number, of int)
	// Sign signs a proof with the key of the node.
	Sign func(*protocol.Proof) error
}

// Result contains the output of a successful execution: a proof for an allocation, or an answer of the
// node.
type Result struct {
	Proof *protocol.Proof
	// Answer encodes to a JSON object.
	Answer any
}

// needsHost rejects the types that change the host OS.
func needsHost(t protocol.Type) func(Backend) error {
	return func(b Backend) error {
		if b.Host == nil {
			return protocol.Reject(protocol.TypeUnknown, "the driver of this node only reads state and cannot run %s", t)
		}
		return nil
	}
}

// needsDevices rejects the types that operate the GPUs.
func needsDevices(t protocol.Type) func(Backend) error {
	return func(b Backend) error {
		if b.Devices == nil {
			return protocol.Reject(protocol.TypeUnknown, "the driver of this node cannot run %s", t)
		}
		return nil
	}
}

// slotsFree rejects a task on a GPU that another allocation has, until a proof shows that nothing of it is
// left, and on a GPU that a task of the node locks.
func slotsFree(a Admission) error {
	for _, other := range a.Others {
		if other.Released() {
			continue
		}
		last := other.Last()
		for _, uuid := range a.Params.GPUs {
			switch {
			case last.Result == nil && slices.Contains(locked(last.Envelope), uuid):
				return protocol.Reject(protocol.SlotBusy, "%s is locked by %s", uuid, last.Envelope.Type)
			case last.Envelope.Type.Scope() != protocol.ScopeAllocation || !slices.Contains(last.Envelope.Slots, uuid):
			case last.Envelope.Type.Effect() == protocol.Releases:
				return protocol.Reject(protocol.SlotDirty, "%s is not clean yet of allocation %s", uuid, other.Allocation)
			default:
				return protocol.Reject(protocol.SlotBusy, "%s belongs to allocation %s", uuid, other.Allocation)
			}
		}
	}
	return nil
}

func locked(e protocol.Envelope) []string {
	if h := Of(e.Type); h.Locks != nil {
		return h.Locks(e)
	}
	return nil
}
