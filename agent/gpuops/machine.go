// Package gpuops operates the NVIDIA GPUs of a node for the agent. It reads the devices and the bus,
// watches their health, checks them and resets them. A call that may block runs in a child process; a
// value that no driver returns in time is unknown. The package grants tenants nothing: agent/linux does.
package gpuops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/agent/gpu/nvml"
	"github.com/gpuaas/gpuaas/agent/gpu/sysfs"
	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/protocol"
)

// Tool reads the devices through the driver.
type Tool interface {
	See(ctx context.Context) (gpu.Reading, error)
	// Reset resets one device. It fails if a process uses the device.
	Reset(ctx context.Context, uuid string) error
}

var _, _ Tool = (*nvidiasmi.Tool)(nil), (*Library)(nil)

// Options configure a Machine.
type Options struct {
	Tool Tool
	// Self is the path of this program, which children run to probe. If it is empty, probes run in
	// this process, and a probe that hangs leaves a thread behind.
	Self string
	Root string // before /sys, /proc and /dev; empty but in tests
	// StateDir is the folder that stores the kernel's events across restarts. If it is empty, they
	// are not stored.
	StateDir string
	Log      *slog.Logger
	Clock    clock.Clock
}

// Machine contains the GPU operations of this node.
type Machine struct {
	Options

	watch *health.Watch

	mu          sync.Mutex
	lastReading gpu.Reading // the last one that succeeded
}

// topologyProbe is the name of the child that reads the bus.
const topologyProbe = "topology"

// Open opens the kernel log and the stored events, and follows the events of the driver until ctx ends.
func Open(ctx context.Context, o Options) (*Machine, error) {
	m := &Machine{Options: o}
	m.watch = &health.Watch{Run: m.run, Log: o.Log, Clock: m.Clock, Extra: []string{topologyProbe}}
	if o.StateDir == "" {
		return m, nil
	}
	boot, err := m.BootID()
	if err != nil {
		return nil, err
	}
	if m.watch.Ledger, err = health.OpenLedger(filepath.Join(o.StateDir, "health.json"), boot); err != nil {
		return nil, err
	}
	if m.watch.Kernel, err = health.OpenKernelLog(m.path("/dev/kmsg")); err != nil {
		// A container may have none. The version of the driver remains.
		o.Log.WarnContext(ctx, "no kernel log: it gives no hints", "err", err)
		m.watch.Kernel = nil
	}
	if nvml.Built && o.Self != "" {
		go m.followEvents(ctx)
	}
	return m, nil
}

func (m *Machine) path(p string) string { return filepath.Join(m.Root, p) }

// run starts a probe.
func (m *Machine) run(ctx context.Context, probe string) (text []byte, err error) {
	if m.Self != "" {
		return health.Start(ctx, m.Self, "probe", probe)
	}
	out := &bytes.Buffer{}
	err = Child(ctx, probe, m.Root, func(text []byte) error {
		_, err := out.Write(text)
		return err
	})
	return out.Bytes(), err
}

// Child executes a probe in a child process.
func Child(ctx context.Context, probe, root string, out func([]byte) error) error {
	switch probe {
	case nvmlProbe:
		return printNVML(out)
	case eventsProbe:
		return printEvents(ctx, out)
	}
	if probe == topologyProbe {
		t := sysfs.Tree{Root: root}.Read()
		return health.Print(health.Answer{Topology: &t}, out)
	}
	return health.Child(ctx, probe, root, out)
}

// Inventory reads the inventory from the driver.
func (m *Machine) Inventory(ctx context.Context) (protocol.Inventory, error) {
	seen, err := m.Tool.See(ctx)
	if err != nil {
		return protocol.Inventory{}, err
	}
	m.mu.Lock()
	m.lastReading = seen
	m.mu.Unlock()
	return seen.Inventory, nil
}

// Examine returns the health of the node, without waiting for a call that may hang.
func (m *Machine) Examine(ctx context.Context, inventory protocol.Inventory, err error) gpu.Examination {
	m.mu.Lock()
	seen := m.lastReading
	m.mu.Unlock()
	if err != nil { // hardware that half of it lacks would be reported as gone
		return gpu.Examination{Health: m.watch.Check(ctx, nil, nil, err)}
	}
	m.watch.Query(ctx)
	host, cards := m.watch.Topology(topologyProbe), seen.Cards
	var found gpu.Examination
	if host != nil {
		whole := gpu.Merge(*host, seen)
		cards, found.Topology, found.Whole = whole.GPUs, &whole, len(whole.Missing) == 0
	}
	said := append(slices.Clone(seen.Health), m.watch.Links(cards, seen.Replays)...)
	found.Health = m.watch.Check(ctx, inventory.GPUs, said, nil)
	return found
}

// MergeHealth replaces the health that the driver reports by the health from all sources. A provisioning
// then uses the same health as the report.
func (m *Machine) MergeHealth(ctx context.Context, gpus []protocol.GPU) {
	m.mu.Lock()
	said := slices.Clone(m.lastReading.Health)
	m.mu.Unlock()
	if len(said) > 0 {
		health.MergeHealth(gpus, m.watch.Check(ctx, gpus, said, nil))
	}
}

// Reset resets one device and deletes the events that a reset clears.
func (m *Machine) Reset(ctx context.Context, g protocol.GPU) error {
	if err := m.Tool.Reset(ctx, g.UUID); err != nil {
		return err
	}
	return m.watch.WasReset(g.PCI)
}

// Stamp is constant: there is no cheap sign that a device changed, so each report reads all devices.
func (*Machine) Stamp() (string, error) { return "", nil }

// Partitioned is true on simulated nodes only.
func (*Machine) Partitioned() (bool, error) { return false, nil }

// BootID changes when the node starts.
func (m *Machine) BootID() (string, error) {
	text, err := os.ReadFile(m.path("/proc/sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("reading boot id: %w", err)
	}
	if id := strings.TrimSpace(string(text)); id != "" {
		return id, nil
	}
	return "", errors.New("the kernel gave no boot id")
}
