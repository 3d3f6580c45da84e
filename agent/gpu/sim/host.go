// Package sim simulates a host OS: its accounts, devices and processes are one JSON file. An edit of the
// file is real drift, as an edit by root is on a real node. The parser of nvidia-smi reads its hardware.
//
// The package simulates no time, no load and no speed, and proves nothing about a GPU.
package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Host is the content of the file.
type Host struct {
	Version  int64    `json:"version"` // rises with every edit
	Node     ids.Node `json:"node_id"`
	Profile  string   `json:"profile"`
	Hostname string   `json:"hostname"`
	BootID   string   `json:"boot_id"`

	Accounts  map[string]*Account `json:"accounts"`
	GPUs      []*GPU              `json:"gpus"`
	Processes []Process           `json:"processes"`
	Files     map[string]int      `json:"files"` // path → uid of its owner
	// Settings lists settings that differ from those of other nodes.
	Settings []string `json:"settings,omitempty"`

	// Partitioned means that the node has no network.
	Partitioned bool `json:"partitioned"`
	// Fails lists operations that fail, with their error text; "hang" never returns. Operations:
	// look, settings, account, home, keys, net, mount, unmount, remove, remove_home, grant, baseline, kill, end,
	// sweep, scan, scrub, probe, inventory.
	Fails map[string]string `json:"fails,omitempty"`
	// Scrubs and Kills count the operations, so that a test can check how often a step acted.
	Scrubs int `json:"scrubs"`
	Kills  int `json:"kills"`
}

// Account is an account of the simulated node.
type Account struct {
	UID        int             `json:"uid"`
	Keys       []string        `json:"keys"`
	Principals []string        `json:"principals,omitempty"`
	HomeGiB    int64           `json:"home_gib,omitempty"`
	Limits     protocol.Limits `json:"limits,omitzero"`
	Net        bool            `json:"net,omitempty"` // its rules exist
	// CAs are the authorities of the certificates that log in for Principals, without the Revoked serials.
	CAs     []string `json:"cas,omitempty"`
	Revoked []uint64 `json:"revoked,omitempty"`
	// Access are the rules for logins.
	Access protocol.Access `json:"access,omitzero"`
	// Storage are the mounts of stored objects, and NotStored are files that no mount has uploaded.
	Storage         *protocol.Storage `json:"storage,omitempty"`
	MountsCPUWeight int               `json:"mounts_cpu_weight,omitempty"`
	NotStored       int               `json:"not_stored,omitempty"`
}

// GPU is a device of the simulated node.
type GPU struct {
	UUID   string   `json:"uuid"`
	Serial string   `json:"serial"`
	PCI    string   `json:"pci"`
	Users  []string `json:"users"` // who can open it
	Dirty  bool     `json:"dirty"`
	Off    []string `json:"off,omitempty"`  // modes that are not at their baseline
	XIDs   []int    `json:"xids,omitempty"` // events of its driver
}

// Process is a process of the simulated node.
type Process struct {
	PID     int    `json:"pid"`
	UID     int    `json:"uid"`
	GPU     string `json:"gpu,omitempty"`
	Command string `json:"command"`
}

// Path returns the path of the file in a state directory.
func Path(stateDir string) string { return filepath.Join(stateDir, "host.json") }

var errNoHost = errors.New("no simulated node in this folder")

// Read returns the current state of the node.
func Read(path string) (*Host, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, errNoHost)
	} else if err != nil {
		return nil, fmt.Errorf("reading simulated node: %w", err)
	}
	h := &Host{}
	if err := json.Unmarshal(text, h); err != nil {
		return nil, fmt.Errorf("reading simulated node %s: %w", path, err)
	}
	return h, nil
}

// Edit changes the file. A lock serialises the editors of all processes. A reader gets the file
// before or after an edit, never a part of it. If change returns an error, the file is unchanged.
func Edit(path string, change func(*Host) error) error {
	return locked(path, func() error {
		h, err := Read(path)
		if err != nil {
			return err
		}
		if err := change(h); err != nil {
			return err
		}
		h.Version++
		return write(path, h)
	})
}

// create creates the file of a simulated node, unless it exists.
func create(path string, node ids.Node, profile, hostname string) error {
	hardware, err := profileOf(profile)
	if err != nil {
		return err
	}
	return locked(path, func() error {
		h, err := Read(path)
		switch {
		case err == nil && (h.Node != node || h.Profile != profile):
			return fmt.Errorf("%s is node %s with profile %s, not %s with %s", path, h.Node, h.Profile, node, profile)
		case err == nil || !errors.Is(err, errNoHost):
			return err
		}
		return write(path, fresh(node, hardware, hostname))
	})
}

// fresh derives all hardware identifiers from the id of the node, so that a simulated node that is
// created again has the same hardware.
func fresh(node ids.Node, p Profile, hostname string) *Host {
	h := &Host{
		Version: 1, Node: node, Profile: p.Name, Hostname: hostname, BootID: uuid.NewString(),
		Accounts: map[string]*Account{}, Files: map[string]int{},
	}
	for i, pci := range p.PCI {
		id := uuid.NewSHA1(node.UUID, fmt.Appendf(nil, "gpu-%d", i))
		g := device(id, pci)
		h.GPUs = append(h.GPUs, &g)
	}
	return h
}

func device(id uuid.UUID, pci string) GPU {
	serial := uint64(id[0])<<24 | uint64(id[1])<<16 | uint64(id[2])<<8 | uint64(id[3])
	return GPU{UUID: "GPU-" + id.String(), Serial: fmt.Sprintf("165%010d", serial), PCI: pci}
}

// UUIDs returns the UUIDs of the GPUs of a node with a profile, in order.
func UUIDs(node ids.Node, profile string) ([]string, error) {
	p, err := profileOf(profile)
	if err != nil {
		return nil, err
	}
	var uuids []string
	for _, g := range fresh(node, p, "").GPUs {
		uuids = append(uuids, g.UUID)
	}
	return uuids, nil
}

func locked(path string, do func() error) error {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("locking simulated node: %w", err)
	}
	defer func() { _ = lock.Close() }() // which also unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking simulated node: %w", err)
	}
	return do()
}

// write replaces the file without fsync. The simulation must survive a crash of the agent, but not
// of the computer that it runs on.
func write(path string, h *Host) error {
	text, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return fmt.Errorf("encoding simulated node: %w", err)
	}
	temp := path + ".new" // one writer at a time has the lock
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return fmt.Errorf("writing simulated node: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("writing simulated node: %w", err)
	}
	return nil
}

func (h *Host) gpu(uuid string) (*GPU, error) {
	i := slices.IndexFunc(h.GPUs, func(g *GPU) bool { return g.UUID == uuid })
	if i < 0 {
		return nil, fmt.Errorf("no GPU %s", uuid)
	}
	return h.GPUs[i], nil
}
