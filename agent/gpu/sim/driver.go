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

	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/agent/hook"
	"github.com/gpuaas/gpuaas/agent/wire"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// Driver works on one simulated host.
type Driver struct {
	path string

	mu    sync.Mutex
	known wire.Inventory // of version, so that an idle host costs no parsing
	at    int64
}

// Open returns the driver of the host in stateDir, and makes the host when it is
// not there.
func Open(stateDir string, node ids.Node, profile, hostname string) (*Driver, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, fmt.Errorf("opening simulated host: %w", err)
	}
	path := Path(stateDir)
	if err := create(path, node, profile, hostname); err != nil {
		return nil, fmt.Errorf("opening simulated host in %s: %w", filepath.Base(stateDir), err)
	}
	return &Driver{path: path}, nil
}

// Stamp changes whenever the host may look different. It costs one stat.
func (d *Driver) Stamp() (string, error) {
	info, err := os.Stat(d.path)
	if err != nil {
		return "", fmt.Errorf("looking at simulated host: %w", err)
	}
	var inode uint64
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return fmt.Sprintf("%d.%d.%d", inode, info.ModTime().UnixNano(), info.Size()), nil
}

// Partitioned says whether the host is cut off.
func (d *Driver) Partitioned() (bool, error) {
	h, err := Read(d.path)
	if err != nil {
		return false, err
	}
	return h.Partitioned, nil
}

// BootID changes when the host starts.
func (d *Driver) BootID() (string, error) {
	h, err := Read(d.path)
	if err != nil {
		return "", err
	}
	return h.BootID, nil
}

// Inventory reads the hardware through the parser of nvidia-smi.
func (d *Driver) Inventory(ctx context.Context) (wire.Inventory, error) {
	h, err := d.attempt(ctx, "inventory")
	if err != nil {
		return wire.Inventory{}, err
	}
	return d.inventory(h)
}

func (d *Driver) inventory(h *Host) (wire.Inventory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at == h.Version {
		return d.copy(), nil
	}
	text, err := h.SMI()
	if err != nil {
		return wire.Inventory{}, err
	}
	inventory, err := nvidiasmi.Parse(strings.NewReader(text))
	if err != nil {
		return wire.Inventory{}, err
	}
	if err := nvidiasmi.ParseLinks(strings.NewReader(h.Links()), inventory.GPUs); err != nil {
		return wire.Inventory{}, err
	}
	events, err := health.Events(strings.NewReader(h.KernelLog()))
	if err != nil {
		return wire.Inventory{}, fmt.Errorf("reading kernel log: %w", err)
	}
	health.Apply(inventory.GPUs, events)
	inventory.Hostname, inventory.Simulated = h.Hostname, true
	d.known, d.at = inventory, h.Version
	return d.copy(), nil
}

func (d *Driver) copy() wire.Inventory {
	i := d.known
	i.GPUs = slices.Clone(i.GPUs)
	return i
}

// Look implements hook.Looker.
func (d *Driver) Look(ctx context.Context) (hook.State, error) {
	h, err := d.attempt(ctx, "look")
	if err != nil {
		return hook.State{}, err
	}
	inventory, err := d.inventory(h)
	if err != nil {
		return hook.State{}, err
	}
	s := hook.State{Settings: h.Settings}
	for _, name := range slices.Sorted(maps.Keys(h.Accounts)) {
		a := h.Accounts[name]
		s.Accounts = append(s.Accounts, hook.Account{
			Name: name, UID: a.UID, Keys: a.Keys, Principals: a.Principals, Limits: a.Limits, Net: a.Net,
			Home: hook.Home{GiB: a.HomeGiB, Open: a.HomeGiB > 0},
		})
	}
	for i, g := range h.GPUs {
		seen := inventory.GPUs[i]
		s.GPUs = append(s.GPUs, hook.Device{UUID: g.UUID, Users: g.Users, Dirty: g.Dirty, Off: g.Off, Health: seen.Health, Reasons: seen.Reasons})
	}
	for _, p := range h.Processes {
		s.Processes = append(s.Processes, hook.Process(p))
	}
	for _, path := range slices.Sorted(maps.Keys(h.Files)) {
		s.Files = append(s.Files, hook.File{Path: path, UID: h.Files[path]})
	}
	return s, nil
}

// attempt reads the host, unless it was told to fail the operation.
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

// act edits the host as the operation, unless that fails. Without a change it
// leaves the file alone.
func (d *Driver) act(ctx context.Context, operation string, change func(*Host) error) error {
	if _, err := d.attempt(ctx, operation); err != nil {
		return err
	}
	return Edit(d.path, change)
}
