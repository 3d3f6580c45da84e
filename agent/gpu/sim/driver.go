package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/agent/storagekey"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/protocol/fault"
)

// Driver works on one simulated node.
type Driver struct {
	// StorageKeys are the access keys of mounts. Nil: the node mounts nothing.
	StorageKeys *storagekey.Store

	path string

	mu      sync.Mutex
	cached  protocol.Inventory // of version, so that an idle node costs no parsing
	at      int64
	reading gpu.Reading // of version
}

// Open returns the driver of the node in stateDir, and creates the node if it does not exist.
func Open(stateDir string, node ids.Node, profile, hostname string) (*Driver, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, fmt.Errorf("opening simulated node: %w", err)
	}
	path := Path(stateDir)
	if err := create(path, node, profile, hostname); err != nil {
		return nil, fmt.Errorf("opening simulated node in %s: %w", filepath.Base(stateDir), err)
	}
	return &Driver{path: path}, startLogs(stateDir)
}

// Stamp changes whenever the simulated host OS may have changed. It costs one stat.
func (d *Driver) Stamp() (string, error) {
	info, err := os.Stat(d.path)
	if err != nil {
		return "", fmt.Errorf("reading simulated node: %w", err)
	}
	var inode uint64
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return fmt.Sprintf("%d.%d.%d", inode, info.ModTime().UnixNano(), info.Size()), nil
}

// Partitioned returns whether the node is partitioned.
func (d *Driver) Partitioned() (bool, error) {
	h, err := Read(d.path)
	if err != nil {
		return false, err
	}
	return h.Partitioned, nil
}

// BootID changes when the node starts.
func (d *Driver) BootID() (string, error) {
	h, err := Read(d.path)
	if err != nil {
		return "", err
	}
	return h.BootID, nil
}

// Inventory reads the hardware through the parser of nvidia-smi.
func (d *Driver) Inventory(ctx context.Context) (protocol.Inventory, error) {
	h, err := d.attempt(ctx, "inventory")
	if err != nil {
		return protocol.Inventory{}, err
	}
	return d.inventory(h)
}

func (d *Driver) inventory(h *Host) (protocol.Inventory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at == h.Version {
		return d.copy(), nil
	}
	text, err := h.SMI()
	if err != nil {
		return protocol.Inventory{}, err
	}
	seen, err := nvidiasmi.Read(strings.NewReader(text))
	if err != nil {
		return protocol.Inventory{}, err
	}
	inventory := seen.Inventory
	if err := nvidiasmi.ParseLinks(strings.NewReader(h.Links()), inventory.GPUs); err != nil {
		return protocol.Inventory{}, err
	}
	inventory.Hostname, inventory.Simulated = h.Hostname, true
	for i, g := range h.GPUs {
		for _, r := range g.events() {
			if r.Level != protocol.Healthy {
				health.Worsen(&inventory.GPUs[i], r.Level, r.Message)
			}
			seen.Health = append(seen.Health, r)
		}
	}
	protocol.SortHealth(seen.Health)
	d.cached, d.at, d.reading = inventory, h.Version, seen
	return d.copy(), nil
}

// Examine returns the health of the simulated node. It has two sockets, and the boards are divided
// between them.
func (d *Driver) Examine(_ context.Context, inventory protocol.Inventory, err error) gpu.Examination {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		return gpu.Examination{Health: []protocol.HealthReport{health.NewReport(nvidiasmi.Source, "", "driver_silent", "")}}
	}
	host := protocol.Topology{
		Machine: protocol.Machine{Vendor: "GPUaaS", Product: "simulated host", Serial: inventory.Hostname},
		NUMA:    []protocol.NUMA{{ID: 0, CPUs: "0-31", MemoryMiB: 512 << 10, Distances: []int{10, 21}}, {ID: 1, CPUs: "32-63", MemoryMiB: 512 << 10, Distances: []int{21, 10}}},
	}
	for i, c := range d.reading.Cards {
		at := protocol.Card{PCI: c.PCI, Minor: c.Minor, Group: i + 1, Root: "pci" + c.PCI[:len("0000:00")], Resets: []string{"flr", "bus"}, Link: protocol.Link{Width: 16, MaxWidth: 16, Speed: 32000, MaxSpeed: 32000}}
		if c.PCI >= "0000:80" {
			at.NUMA = 1
		}
		at.CPUs = host.NUMA[at.NUMA].CPUs
		host.GPUs = append(host.GPUs, at)
	}
	whole := gpu.Merge(host, d.reading)
	return gpu.Examination{Health: slices.Clone(d.reading.Health), Topology: &whole, Whole: len(whole.Missing) == 0}
}

// Reset makes a device as new, as far as a reset can.
func (d *Driver) Reset(ctx context.Context, g protocol.GPU) error {
	return d.act(ctx, "reset", func(h *Host) error {
		i := slices.IndexFunc(h.GPUs, func(o *GPU) bool { return o.UUID == g.UUID })
		if i < 0 {
			return fmt.Errorf("%s is not on this node", g.UUID)
		}
		if h.GPUs[i].lost() {
			return errors.New("a GPU that has fallen off the bus cannot be reset")
		}
		h.GPUs[i].XIDs = slices.DeleteFunc(h.GPUs[i].XIDs, func(xid int) bool { return health.OfXID(xid).Clears == fault.ClearsReset })
		return nil
	})
}

func (d *Driver) copy() protocol.Inventory {
	i := d.cached
	i.GPUs = slices.Clone(i.GPUs)
	return i
}

// Inspect implements step.Looker.
func (d *Driver) Inspect(ctx context.Context) (step.State, error) {
	h, err := d.attempt(ctx, "look")
	if err != nil {
		return step.State{}, err
	}
	inventory, err := d.inventory(h)
	if err != nil {
		return step.State{}, err
	}
	s := step.State{MountSupport: &protocol.MountSupport{Supported: true}, Settings: h.Settings, HostKeys: d.hostKeys()}
	for _, name := range slices.Sorted(maps.Keys(h.Accounts)) {
		a := h.Accounts[name]
		s.Accounts = append(s.Accounts, step.Account{
			Name: name, UID: a.UID, Keys: a.Keys, Principals: a.Principals, Access: a.Access, Limits: a.Limits, Net: a.Net,
			Home: step.Home{GiB: a.HomeGiB, Open: a.HomeGiB > 0}, Mounts: a.mounted(),
		})
	}
	for i, g := range h.GPUs {
		seen := inventory.GPUs[i]
		s.GPUs = append(s.GPUs, step.Device{UUID: g.UUID, Users: g.Users, Dirty: g.Dirty, Off: g.Off, Health: seen.Health, Reasons: seen.Reasons})
	}
	for _, p := range h.Processes {
		s.Processes = append(s.Processes, step.Process(p))
	}
	for _, path := range slices.Sorted(maps.Keys(h.Files)) {
		s.Files = append(s.Files, step.File{Path: path, UID: h.Files[path]})
	}
	return s, nil
}

// attempt reads the node, unless the file demands that the operation fails.
func (d *Driver) attempt(ctx context.Context, operation string) (*Host, error) {
	h, err := Read(d.path)
	if err != nil {
		return nil, err
	}
	switch how := h.Fails[operation]; how {
	case "":
		return h, ctx.Err()
	case "hang":
		<-ctx.Done()
		return nil, fmt.Errorf("%s hangs: %w", operation, ctx.Err())
	default:
		return nil, errors.New(how)
	}
}

// act applies the operation to the file, unless the operation is set to fail. An operation without
// a change does not write the file.
func (d *Driver) act(ctx context.Context, operation string, change func(*Host) error) error {
	if _, err := d.attempt(ctx, operation); err != nil {
		return err
	}
	if err := Edit(d.path, change); err != nil {
		return err
	}
	return Log(filepath.Dir(d.path), protocol.LogHelper, "", operation+": done")
}
