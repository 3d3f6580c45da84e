package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/protocol"
)

// Ways in which a node can drift.
const (
	DriftKeys    = "keys"    // a tenant's login keys change
	DriftAccount = "account" // a tenant's account is deleted behind our back
	DriftProcess = "process" // a process of another user runs on a GPU
	DriftAccess  = "access"  // another user can open the GPU of a tenant
	DriftGPU     = "gpu"     // a GPU without a tenant is removed
	DriftSerial  = "serial"  // a GPU without a tenant is replaced by another
)

// Drifts lists the ways.
func Drifts() []string {
	return []string{DriftKeys, DriftAccount, DriftProcess, DriftAccess, DriftGPU, DriftSerial}
}

// strangerUID is the uid of the user nobody on every Linux.
const strangerUID = 65534

const strangerKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl stranger"

// Drift changes the simulated host OS in stateDir against its tasks and describes the change. An
// empty way means keys.
func Drift(stateDir, way string) (did string, err error) {
	if way == "" {
		way = DriftKeys
	}
	err = Edit(Path(stateDir), func(h *Host) error {
		switch way {
		case DriftKeys:
			name, err := h.tenant()
			if err != nil {
				return err
			}
			if a := h.Accounts[name]; len(a.Keys) > 0 {
				a.Keys, did = nil, "removed the login keys of "+name
			} else { // an account without keys has none to lose
				a.Keys, did = []string{strangerKey}, "let a stranger's key into account "+name
			}
		case DriftAccount:
			name, err := h.tenant()
			if err != nil {
				return err
			}
			delete(h.Accounts, name)
			did = "deleted account " + name
		case DriftProcess:
			g := h.busiest()
			h.Processes = append(h.Processes, Process{PID: h.freePID(), UID: strangerUID, GPU: g.UUID, Command: "xmrig"})
			did = fmt.Sprintf("started a process of uid %d on %s", strangerUID, g.UUID)
		case DriftAccess:
			g := h.busiest()
			g.Users = append(g.Users, "stranger")
			did = fmt.Sprintf("let stranger open %s", g.UUID)
		case DriftGPU, DriftSerial:
			return h.handle(way, &did)
		default:
			return fmt.Errorf("drift %q does not exist; the kinds are %s", way, strings.Join(Drifts(), ", "))
		}
		return nil
	})
	return did, err
}

// handle simulates an operator who removes or replaces a GPU without a tenant.
func (h *Host) handle(way string, did *string) error {
	i := slices.IndexFunc(h.GPUs, func(g *GPU) bool { return len(g.Users) == 0 })
	if i < 0 {
		return fmt.Errorf("every GPU of %s has an allocation; release one first", h.Hostname)
	}
	g := h.GPUs[i]
	if way == DriftGPU {
		h.GPUs, *did = slices.Delete(h.GPUs, i, i+1), "pulled out "+g.UUID
		return nil
	}
	*did = "swapped " + g.UUID
	*g = device(uuid.NewSHA1(uuid.NameSpaceOID, []byte(g.UUID)), g.PCI)
	*did += " for " + g.UUID
	return nil
}

// tenant is the first account by name.
func (h *Host) tenant() (string, error) {
	names := slices.Sorted(maps.Keys(h.Accounts))
	if len(names) == 0 {
		return "", fmt.Errorf("%s has no allocation whose account could drift; create an allocation on it first", h.Hostname)
	}
	return names[0], nil
}

// busiest returns a GPU, and prefers one that a tenant uses.
func (h *Host) busiest() *GPU {
	for _, g := range h.GPUs {
		if len(g.Users) > 0 {
			return g
		}
	}
	return h.GPUs[0]
}

func (h *Host) freePID() int {
	pid := 4000
	for _, p := range h.Processes {
		pid = max(pid, p.PID)
	}
	return pid + 1
}

// Fault makes an XID event appear on a GPU. 79 removes it from the bus, so that
// neither hand-out nor scrub works until Heal.
func Fault(stateDir string, gpu, xid int) error {
	return Edit(Path(stateDir), func(h *Host) error {
		if gpu < 0 || gpu >= len(h.GPUs) {
			return fmt.Errorf("no GPU %d; %s has 0 to %d", gpu, h.Hostname, len(h.GPUs)-1)
		}
		if xid <= 0 {
			return fmt.Errorf("%d is no XID", xid)
		}
		h.GPUs[gpu].XIDs = append(h.GPUs[gpu].XIDs, xid)
		return Log(stateDir, protocol.LogKernel, "", fmt.Sprintf("NVRM: Xid (PCI:%s): %d, simulated", h.GPUs[gpu].PCI, xid))
	})
}

// events lists the XIDs of a GPU, each once, as the event set of its driver reports them, or that it has none. A
// source that stops to report counts as silent.
func (g *GPU) events() (all []protocol.HealthReport) {
	for _, xid := range slices.Compact(slices.Sorted(slices.Values(g.XIDs))) {
		if r := health.NewXIDReport(g.UUID, xid, protocol.FromDriver); r.Level != protocol.Healthy {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		all = append(all, health.Well(health.SourceXID, g.UUID))
	}
	return all
}

// Partition partitions the node in both directions.
func Partition(stateDir string) error {
	return Edit(Path(stateDir), func(h *Host) error {
		h.Partitioned = true
		return nil
	})
}

// Heal ends the partition, clears XIDs, as a restart would, and stops operations
// from failing. Drift stays: that is for the control plane to heal.
func Heal(stateDir string) error {
	return Edit(Path(stateDir), func(h *Host) error {
		h.Partitioned, h.Fails = false, nil
		for _, g := range h.GPUs {
			g.XIDs = nil
		}
		return nil
	})
}
