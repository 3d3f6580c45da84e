package agent

import (
	"context"

	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/agent/runner"
	"github.com/gpuaas/gpuaas/agent/storagekey"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Worker is the helper as the network process calls it: in the same process, or behind a socket. An
// error means that the call did not reach the helper. The answer contains its decision about a task. Its
// events arrive through helper.Notes.
type Worker interface {
	receiver
	// Inspect reads the whole node: all of a report but who sends it.
	Inspect(ctx context.Context) (protocol.Report, error)
	// PendingResults lists the results that the control plane has not accepted yet.
	PendingResults(ctx context.Context) ([]*protocol.Result, error)
	// AckResult records that the control plane has the result of a task, or does not need it.
	AckResult(ctx context.Context, id ids.Allocation, task ids.Task) error
	keyReceiver
	// HandleAck passes on the response of the control plane to the last report.
	HandleAck(ctx context.Context, ack helper.ReportAck) error
}

// receiver passes signed requests on to the helper.
type receiver interface {
	// Receive passes a task on unchanged.
	Receive(ctx context.Context, s protocol.Signed) (runner.Answer, error)
	// Stream verifies a request for a stream, and returns where the stream leads.
	Stream(ctx context.Context, s protocol.Signed) (helper.Stream, error)
	// ReadLog returns the next lines of a stream of kind logs. With end it ends the stream.
	ReadLog(ctx context.Context, stream ids.Task, end bool) (helper.LogBatch, error)
}

// keyReceiver receives keys that the control plane has.
type keyReceiver interface {
	trustUpdater
	keyKeeper
}

// keyKeeper passes access keys of mounts on to the helper.
type keyKeeper interface {
	// KeyWants lists the allocations that need access keys, now or when theirs expire.
	KeyWants(ctx context.Context) ([]helper.KeyWant, error)
	// GrantKeys hands over what a request for access keys has brought.
	GrantKeys(ctx context.Context, g helper.KeyGrant) error
}

// trustUpdater passes signed statements of keys on to the helper.
type trustUpdater interface {
	// UpdateTrust hands over the last protocol.KeySets, oldest first.
	UpdateTrust(ctx context.Context, sets []protocol.Signed) error
	// UpdateReleaseKeys hands over the last protocol.ReleaseKeySets, oldest first.
	UpdateReleaseKeys(ctx context.Context, sets []protocol.Signed) error
}

var _ Worker = (*helper.Local)(nil)

// notes connects the events of the helper with this node.
func (n *node) notes() helper.Notes {
	return helper.Notes{Changed: n.changed, Progress: n.progress, Finished: n.finished, Probe: n.probe, Cut: n.setCut, Keys: n.keysWanted}
}

// openLocal runs the helper in this process.
func (n *node) openLocal(ctx context.Context, fresh bool) error {
	identity := n.identity.Load()
	keys := &storagekey.Store{}
	d, host, err := n.open(ctx, identity.Node, keys)
	if err != nil {
		return err
	}
	devices, _ := d.(task.Devices) // nil if the driver cannot operate devices
	local, err := helper.Open(ctx, helper.Options{
		Devices: devices,
		Dir:     n.journalDir(), Node: identity.Node, Journal: identity.Journal, Fresh: fresh,
		Driver: d, Host: host, Hostname: n.Hostname, Log: n.log, Clock: n.Clock, Notes: n.notes(),
		StorageKeys: keys,
		Keys:        func() map[string][]byte { return n.identity.Load().Trust.TaskKeys },
		Statements:  func() map[string][]byte { return n.identity.Load().Trust.StatementKeys },
		Relays:      func() map[string][]byte { return n.identity.Load().Trust.RelayKeys },
	})
	if err != nil {
		return err
	}
	n.worker, n.local = local, local
	if made := local.JournalID(); made != identity.Journal && local.HasJournal() {
		again := *identity
		again.Journal = made
		if err := again.Save(n.identityDir()); err != nil {
			return err
		}
		n.identity.Store(&again)
	}
	return nil
}
