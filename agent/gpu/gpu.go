// Package gpu finds the devices of a node. Each way of finding them is a package below it.
package gpu

import (
	"context"
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaas/protocol"
)

// Provider reads the hardware. An error means that the inventory is unknown, which differs from an
// inventory without GPUs.
type Provider interface {
	Inventory(ctx context.Context) (protocol.Inventory, error)
}

// Examiner is a provider that also reads the health of the node. It returns at once: a value whose
// read may hang is read elsewhere, and is unknown until that read returns.
type Examiner interface {
	// Examine is called with what Inventory has just answered, or what it could not.
	Examine(ctx context.Context, inventory protocol.Inventory, err error) Examination
}

// Examination is the result of an Examiner.
type Examination struct {
	Health   []protocol.HealthReport
	Topology *protocol.Topology // nil: not known
	// Whole is true if Topology is complete: only then it has a fingerprint.
	Whole bool
}

// Reading is the response of a driver: the inventory, and each device in its slot.
type Reading struct {
	protocol.Inventory

	Cards  []protocol.Card
	Peers  []protocol.Peer
	Health []protocol.HealthReport
	// Replays counts what each link, by UUID, had to send again since the start.
	Replays map[string]int64
}

// Merge adds the readings of drivers to the topology that the kernel reports. A device that only one of
// them reports is listed as missing by the other of the two.
func Merge(host protocol.Topology, seen Reading) protocol.Topology {
	host.Peers = seen.Peers
	host.GPUs = slices.Clone(host.GPUs)
	for _, said := range seen.Cards {
		i := slices.IndexFunc(host.GPUs, func(c protocol.Card) bool { return c.PCI == said.PCI })
		if i < 0 {
			if len(host.GPUs) > 0 || len(host.Missing) == 0 {
				host.Missing = append(slices.Clone(host.Missing), fmt.Sprintf("gpu %s: not on the bus", said.PCI))
			}
			said.NUMA, said.Group = -1, -1
			host.GPUs = append(host.GPUs, said)
			continue
		}
		host.GPUs[i] = together(host.GPUs[i], said)
	}
	for _, c := range host.GPUs {
		if c.UUID == "" {
			host.Missing = append(slices.Clone(host.Missing), fmt.Sprintf("gpu %s: the driver reports nothing", c.PCI))
		}
	}
	return host
}

// together merges both descriptions of a card: the bus has its location, the driver its name.
func together(c, said protocol.Card) protocol.Card {
	c.UUID, c.Serial, c.Model, c.MemoryMiB = said.UUID, said.Serial, said.Model, said.MemoryMiB
	c.MIG, c.NVLinks = said.MIG, said.NVLinks
	if said.VBIOS != "" {
		c.VBIOS = said.VBIOS
	}
	if said.Minor >= 0 {
		c.Minor = said.Minor
	}
	if c.Link.MaxWidth == 0 {
		c.Link = said.Link
	}
	return c
}
