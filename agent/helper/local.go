// Package helper is the privileged process of the agent, which changes the host OS as root. It owns the
// journal, the fences, the keys by which it verifies tasks, and the key that signs proofs. It verifies
// every envelope itself, so that the network process can deliver tasks but not create them.
//
// Local is the helper in the same process. Server and Client put a socket between the helper and the
// network process.
package helper

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/runner"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/agent/storagekey"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/agent/update"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Driver contains the operations of the agent on a node.
type Driver interface {
	gpu.Provider
	// Stamp changes when the host OS may have changed. It must be cheap, because the helper calls
	// it twice a second.
	Stamp() (string, error)
	// Partitioned returns whether the node counts as partitioned.
	Partitioned() (bool, error)
	BootID() (string, error)
}

// Notes receive the events of the helper. Only Probe may block.
type Notes struct {
	Changed  func()                            // the state of the node has changed
	Progress func(ids.Task, protocol.Progress) // a step has ended
	Finished func()                            // a result waits
	// Probe sends a complete report, then the result.
	Probe func(context.Context, *protocol.Result)
	// Cut sets whether the node counts as partitioned.
	Cut func(context.Context, bool)
	// Keys reports that a step waits for access keys.
	Keys func()
}

// Options configure a Local.
type Options struct {
	Dir     string // journal, proof key and trust state
	Node    ids.Node
	Journal uuid.UUID // that belongs to the identity; zero before the first one
	Fresh   bool      // an operator has enrolled this node again: a lost journal is replaced

	Driver   Driver
	Host     step.Host // nil on a driver that only reads
	Hostname string
	Version  string // of this build, when this half is a process of its own

	// Anchor of the journal, in memory; empty for none.
	Anchor string
	// Devices are the GPUs for tasks about the node. Nil on a driver that cannot operate them.
	Devices task.Devices
	// Updater replaces the agent. Nil where the agent does not replace itself.
	Updater *update.Updater
	// Platform is the target of the builds that can replace this agent. It is empty if the agent
	// does not replace itself.
	Platform string
	// Reported receives the version of the network process after each complete report that the control
	// plane accepted. It may be nil.
	Reported func(ctx context.Context, version string) error

	// Keys returns the task keys, Statements the statement keys, and Relays the relay keys, if the network process
	// shares this process. Nil means the trust state in Dir, which only signed statements change.
	Keys, Statements, Relays func() map[string][]byte

	// StorageKeys receive the access keys that steps wait for. Nil on a driver that only reads.
	StorageKeys *storagekey.Store

	Notes Notes
	Log   *slog.Logger
	Clock clock.Clock
}

// Local is the helper in this process.
type Local struct {
	Options

	runner   *runner.Runner
	bootID   string
	proofKey ed25519.PrivateKey

	mu        sync.Mutex
	trust     TrustState // of Keys, when those are nil
	sequence  int64
	stamp     string
	tidyAt    time.Time
	heardAt   time.Time // the last report that the control plane accepted, or the start of this process
	enforceAt time.Time
	remountAt time.Time
	everHeard bool
	stale     int      // consecutive reports that the control plane rejected as stale
	topology  topology // guarded by mu
	sent      []sent   // oldest first

	streams streams // guarded by mu
	logs    openLogs
	faults  faults

	lastHeard, storedHeard time.Time // of heardFile: the last accepted report, also of an earlier process
}

// Open opens the journal of the node. Without its journal the helper continues, so that it can
// report the loss, but it rejects tasks.
func Open(ctx context.Context, o Options) (*Local, error) {
	l := &Local{Options: o, heardAt: o.Clock.Now()}
	key, err := ProofKey(o.Dir)
	if err != nil {
		return nil, err
	}
	l.proofKey = key
	l.lastHeard = l.loadHeard()
	if l.Keys == nil {
		if err := l.reloadTrust(); err != nil {
			return nil, err
		}
	}
	if l.bootID, err = o.Driver.BootID(); err != nil {
		return nil, err
	}
	j, err := recall(ctx, l.Options)
	if err != nil {
		return nil, err
	}
	if err := l.storeReport(j); err != nil {
		return nil, err
	}
	if l.StorageKeys != nil {
		l.StorageKeys.Wanted = o.Notes.Keys
	}
	l.runner = &runner.Runner{
		Node: l.Node, Journal: j, Clock: o.Clock, Log: o.Log, Keys: l.Keys,
		Backend: task.Backend{Host: o.Host, Devices: o.Devices, Updater: o.Updater},
		Sign:    func(p *protocol.Proof) error { return p.Sign(key) },
		Changed: o.Notes.Changed, Progress: o.Notes.Progress, Finished: o.Notes.Finished, Probe: o.Notes.Probe,
	}
	return l, nil
}

// Start resumes what a crash interrupted. ctx ends all work.
func (l *Local) Start(ctx context.Context) {
	l.logs.start(ctx)
	l.logs.running.Go(func() { l.logs.watch(ctx, l.runner.Clock.Now) })
	l.runner.Start(ctx)
}

// Wait returns when all work has stopped.
func (l *Local) Wait() {
	l.logs.running.Wait()
	l.runner.Wait()
}

// JournalID names the journal; zero when it is lost.
func (l *Local) JournalID() uuid.UUID {
	if l.runner.Journal == nil {
		return uuid.Nil
	}
	return l.runner.Journal.ID()
}

// HasJournal returns whether the journal exists.
func (l *Local) HasJournal() bool { return l.runner.Journal != nil }

// Hello returns the introduction of the helper.
func (l *Local) Hello() *Hello {
	proof, _ := l.proofKey.Public().(ed25519.PublicKey) // it is one by its type
	return &Hello{Protocol: Protocol, Version: l.Version, Node: l.Node, ProofKey: proof, Journal: l.HasJournal()}
}

// sequenceBlock is more than the network process can count by itself while the helper is not
// available.
const sequenceBlock = 1 << 20

// skip makes the next report newer than all that an earlier caller sent.
func (l *Local) skip() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sequence += sequenceBlock
}

// Plan returns the steps that the helper would execute now for each task, and changes nothing.
func (l *Local) Plan(ctx context.Context) ([]runner.Plan, error) { return l.runner.Plans(ctx) }

// Alive returns the reason why the helper is stuck, or nil. The caller notifies the watchdog only if it
// returns nil.
func (l *Local) Alive() error {
	l.mu.Lock()
	now := l.Clock.Now()
	l.mu.Unlock()
	return l.runner.Alive(now)
}

// Receive verifies a task, writes it to the journal and starts its execution, or rejects it.
func (l *Local) Receive(_ context.Context, s protocol.Signed) (runner.Answer, error) {
	return l.runner.Receive(s), nil //nolint:contextcheck // work outlives the poll that brought it
}

// PendingResults lists the results that the control plane has not accepted yet.
func (l *Local) PendingResults(context.Context) ([]*protocol.Result, error) {
	return l.runner.PendingResults(), nil
}

// AckResult records that the control plane has the result of a task, or does not need it.
func (l *Local) AckResult(_ context.Context, id ids.Allocation, task ids.Task) error {
	return l.runner.AckResult(id, task)
}

// tidyEvery is the interval at which old records are deleted.
const tidyEvery = time.Hour

// Beat checks whether the host OS has changed. Its owner calls it twice a second.
func (l *Local) Beat(ctx context.Context) {
	now := l.Clock.Now()
	stamp, err := l.Driver.Stamp()
	if err != nil {
		stamp = "unreadable" // the report has the reason
	}
	l.mu.Lock()
	moved := stamp != l.stamp
	l.stamp = stamp
	tidy := !now.Before(l.tidyAt)
	if tidy {
		l.tidyAt = now.Add(tidyEvery)
	}
	l.mu.Unlock()

	if moved {
		if cut, err := l.Driver.Partitioned(); err == nil && l.Notes.Cut != nil {
			l.Notes.Cut(ctx, cut)
		}
		l.Notes.Changed()
	}
	if tidy {
		if err := l.runner.DeleteOldRecords(); err != nil {
			l.Log.WarnContext(ctx, "journal not tidied", "err", err)
		}
	}
	l.enforce(ctx, now)
	l.remount(ctx, now)
}

const (
	// aloneAfter is several reports: until then the control plane decides what is
	// repaired, and counts it.
	aloneAfter = time.Minute
	// enforceEvery is the period in which the helper checks the host OS by itself.
	enforceEvery = time.Minute
)

// enforce applies the last tasks again while the control plane does not respond.
func (l *Local) enforce(ctx context.Context, now time.Time) {
	l.mu.Lock()
	due := now.Sub(l.heardAt) >= aloneAfter && !now.Before(l.enforceAt)
	if due {
		l.enforceAt = now.Add(enforceEvery)
	}
	silent := now.Sub(l.lastHeard)
	l.mu.Unlock()
	if due {
		l.runner.Enforce(ctx, silent)
	}
}

// Inspect reads the host OS and signs the report. What could not be read makes the report incomplete.
func (l *Local) Inspect(ctx context.Context) (protocol.Report, error) {
	r := l.read(ctx)
	err := l.sign(&r)
	return r, err
}

// read collects the sections of a report. A section that cannot be read is listed as missing, and the report is still
// sent: the control plane must not mistake it for a node without allocations.
func (l *Local) read(ctx context.Context) protocol.Report {
	l.mu.Lock()
	l.sequence++
	r := protocol.Report{
		Helper: l.Version, Platform: l.Platform, BootID: l.bootID, Sequence: l.sequence, Complete: true,
		Inventory: protocol.Inventory{Hostname: l.Hostname, GPUs: []protocol.GPU{}}, Allocations: []protocol.AllocationReport{},
	}
	l.mu.Unlock()
	miss := func(what string, err error) {
		r.Complete = false
		r.Missing = append(r.Missing, what+": "+err.Error())
	}
	inventory, err := l.Driver.Inventory(ctx)
	if err != nil {
		miss("inventory", err)
	} else {
		r.Inventory = inventory
	}
	l.examine(ctx, &r, err)
	if l.runner.Journal == nil {
		miss("journal", fmt.Errorf("%s", protocol.JournalLost))
	} else {
		r.Boot = l.runner.Journal.Boot()
	}
	if l.Host == nil {
		r.Unsupported = l.runner.Unsupported(protocol.ScopeAllocation)
		r.Foreign = unaccounted(r.Inventory)
		return r
	}
	state, err := l.inspectHost(ctx)
	if err != nil {
		miss("host", err)
		return r
	}
	r.Mounts = state.MountSupport
	r.Allocations, r.Foreign, r.HostKeys = l.runner.Observe(state), l.runner.Foreign(state), state.HostKeys
	return r
}

// unaccounted lists all use of GPUs. A driver that only reads has granted no GPU to a tenant, so
// every use is foreign.
func unaccounted(inventory protocol.Inventory) (found []string) {
	for _, g := range inventory.GPUs {
		if g.Processes > 0 {
			found = append(found, fmt.Sprintf("%s: %d processes that no task accounts for", g.UUID, g.Processes))
		}
	}
	return found
}

// inspectTimeout limits a read of the host OS, so that one that hangs does not stop the reports.
const inspectTimeout = 10 * time.Second

func (l *Local) inspectHost(ctx context.Context) (step.State, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	return l.Host.Inspect(ctx)
}

// recall opens the journal of the node.
func recall(ctx context.Context, o Options) (*journal.Journal, error) {
	which := journal.Options{Dir: o.Dir, Node: o.Node, Expect: o.Journal, Anchor: o.Anchor, Now: o.Clock.Now(), Enrolled: o.Fresh}
	if o.Fresh {
		which.Expect = uuid.Nil
	}
	j, err := journal.Open(which)
	if isLost(err) && o.Fresh {
		if err := journal.Wipe(o.Dir, o.Anchor); err != nil {
			return nil, err
		}
		j, err = journal.Open(which)
	}
	if isLost(err) {
		o.Log.ErrorContext(ctx, "journal lost; tasks are rejected until the node is enrolled again", "err", err)
		return nil, nil //nolint:nilnil // a runner without journal is the answer
	}
	return j, err
}
