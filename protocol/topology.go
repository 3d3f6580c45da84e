package protocol

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Topology describes the hardware of a node: firmware, NUMA nodes, PCI tree, NVLink. An unknown number
// is -1, or zero where zero has no meaning. It is sent after a change and after a probe.
type Topology struct {
	Machine Machine  `json:"machine"`
	CPUs    []CPU    `json:"cpus,omitempty"` // by the tables of the firmware
	NUMA    []NUMA   `json:"numa"`
	GPUs    []Card   `json:"gpus"` // by PCI address
	Peers   []Peer   `json:"peers,omitempty"`
	NICs    []NIC    `json:"nics,omitempty"`
	Disks   []Disk   `json:"disks,omitempty"`
	Missing []string `json:"missing,omitempty"` // what could not be read: it proves nothing about that
}

// Machine contains the identity that the firmware reports.
type Machine struct {
	Vendor  string `json:"vendor,omitempty"`
	Product string `json:"product,omitempty"`
	Serial  string `json:"serial,omitempty"`
	UUID    string `json:"uuid,omitempty"`
	BIOS    string `json:"bios,omitempty"`
	Board   string `json:"board,omitempty"` // serial number of the board
}

// CPU is one processor. Many boards give no serial number.
type CPU struct {
	Socket string `json:"socket,omitempty"`
	Model  string `json:"model,omitempty"`
	Serial string `json:"serial,omitempty"`
}

// NUMA is one memory node.
type NUMA struct {
	ID        int    `json:"id"`
	CPUs      string `json:"cpus"` // 0-31,64-95
	MemoryMiB int64  `json:"memory_mib"`
	Distances []int  `json:"distances,omitempty"`
}

// Card is a GPU in its slot.
type Card struct {
	UUID      string   `json:"uuid,omitempty"` // empty: on the bus, and its driver does not list it
	Serial    string   `json:"serial,omitempty"`
	Model     string   `json:"model,omitempty"`
	VBIOS     string   `json:"vbios,omitempty"`
	MemoryMiB int64    `json:"memory_mib,omitempty"`
	Minor     int      `json:"minor"` // of /dev/nvidiaN; changes when devices do
	PCI       string   `json:"pci"`
	Device    string   `json:"device,omitempty"` // 10de:2330
	NUMA      int      `json:"numa"`
	CPUs      string   `json:"cpus,omitempty"`     // nearest
	Root      string   `json:"root,omitempty"`     // pci0000:50
	Switches  []string `json:"switches,omitempty"` // bridges above it, from the root down
	Group     int      `json:"iommu_group"`
	GroupWith []string `json:"iommu_group_with,omitempty"` // other functions in the same IOMMU group
	Link      Link     `json:"link"`
	Resets    []string `json:"resets,omitempty"` // flr, bus …
	SRIOV     int      `json:"sriov_functions,omitempty"`
	MIG       MIG      `json:"mig"`
	NVLinks   []NVLink `json:"nvlinks,omitempty"`
}

// Link is a PCIe link. Width is in lanes, speed in thousandths of GT/s. The maxima are those of the
// slot and the card together, so the link cannot exceed them.
type Link struct {
	Width    int `json:"width,omitempty"`
	MaxWidth int `json:"max_width,omitempty"`
	Speed    int `json:"speed_mtps,omitempty"`
	MaxSpeed int `json:"max_speed_mtps,omitempty"`
}

// MIG describes whether a device can be divided into instances.
type MIG struct {
	State    string       `json:"state"` // enabled, disabled, unsupported; empty: not known
	Profiles []MIGProfile `json:"profiles,omitempty"`
}

// MIGProfile is one way to divide a device, with the possible start positions of its instances.
type MIGProfile struct {
	ID         int    `json:"id"`
	Name       string `json:"name"` // 1g.10gb
	Slices     int    `json:"slices"`
	MemoryMiB  int64  `json:"memory_mib"`
	Instances  int    `json:"instances"` // at most
	Placements []int  `json:"placements,omitempty"`
}

// NVLink is one end of a link.
type NVLink struct {
	Link int    `json:"link"`
	Up   bool   `json:"up"`
	Peer string `json:"peer,omitempty"` // PCI address of the other end
	MBps int    `json:"mbps,omitempty"`
}

// Peer is the shortest path between two GPUs: NV18, PIX, PXB, PHB, NODE, SYS.
type Peer struct {
	A   string `json:"a"` // PCI addresses, A before B
	B   string `json:"b"`
	Way string `json:"way"`
}

// NIC is a network card.
type NIC struct {
	Name   string `json:"name"`
	PCI    string `json:"pci"`
	MAC    string `json:"mac,omitempty"`
	NUMA   int    `json:"numa"`
	Mbps   int    `json:"mbps,omitempty"`
	Driver string `json:"driver,omitempty"`
	RDMA   string `json:"rdma,omitempty"` // mlx5_0
	Serial string `json:"serial,omitempty"`
}

// Disk is a block device that is not part of another.
type Disk struct {
	Name   string `json:"name"`
	Model  string `json:"model,omitempty"`
	Serial string `json:"serial,omitempty"`
	GiB    int64  `json:"gib"`
	Spins  bool   `json:"spins,omitempty"`
	PCI    string `json:"pci,omitempty"`
}

// Hardware contains the part of a topology that does not change by itself. An operator must accept a
// change of it:
//
//   - the identity of the board, because the disk with our identity may be put into another node;
//   - the GPUs by serial and UUID, with location and firmware: the slots are sold by GPU, and
//     placements and IOMMU groups depend on the location;
//   - the maximum width of each link, which is lower after a card moved to a smaller slot. The
//     current width is health, because it may recover by itself. So is the current speed, which
//     power saving changes all the time;
//   - the devices that share an IOMMU group with a GPU. The number of the group is omitted, because
//     the kernel assigns it again at each start.
//
// Drivers, MIG and ECC modes, minor numbers, disks and network cards are omitted: we change some of
// them, and replacing the others changes nothing that is sold.
type Hardware struct {
	Machine Machine       `json:"machine"` // without BIOS
	GPUs    []HardwareGPU `json:"gpus"`    // by PCI address
}

// HardwareGPU contains the fields that identify a GPU.
type HardwareGPU struct {
	PCI       string   `json:"pci"`
	UUID      string   `json:"uuid"`
	Serial    string   `json:"serial"`
	Model     string   `json:"model"`
	VBIOS     string   `json:"vbios"`
	NUMA      int      `json:"numa"`
	MaxWidth  int      `json:"max_width"`
	GroupWith []string `json:"group_with"`
}

// Hardware returns the identifying part of the topology.
func (t Topology) Hardware() Hardware {
	h := Hardware{Machine: t.Machine, GPUs: []HardwareGPU{}}
	// The serial of the board is left out: older agents do not report it, and an update must not appear as other
	// hardware.
	h.Machine.BIOS, h.Machine.Board = "", ""
	for _, c := range t.GPUs {
		with := append([]string{}, c.GroupWith...)
		slices.Sort(with)
		h.GPUs = append(h.GPUs, HardwareGPU{c.PCI, c.UUID, c.Serial, c.Model, c.VBIOS, c.NUMA, c.Link.MaxWidth, with})
	}
	slices.SortFunc(h.GPUs, func(a, b HardwareGPU) int { return cmp.Compare(a.PCI, b.PCI) })
	return h
}

// Fingerprint returns the SHA-256 of the canonical form of the hardware in hex.
func (h Hardware) Fingerprint() string {
	text, err := json.Marshal(h)
	if err != nil {
		return "" // strings and numbers always encode
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Changes describes how other differs from the accepted h. A value that cannot be read on a device
// that is present, such as one that is off the bus, is no change.
func (h Hardware) Changes(other Hardware) (said []string) {
	for _, f := range []struct{ name, was, is string }{
		{"vendor", h.Machine.Vendor, other.Machine.Vendor},
		{"product", h.Machine.Product, other.Machine.Product},
		{"serial number", h.Machine.Serial, other.Machine.Serial},
		{"UUID", h.Machine.UUID, other.Machine.UUID},
	} {
		if f.is != "" && f.was != f.is {
			said = append(said, fmt.Sprintf("%s is %s, accepted %s", f.name, f.is, quoted(f.was)))
		}
	}
	left := slices.Clone(other.GPUs)
	var gone []string
	for i, was := range h.GPUs {
		at := slices.IndexFunc(left, func(g HardwareGPU) bool { return g.UUID == was.UUID })
		if at < 0 {
			gone = append(gone, fmt.Sprintf("GPU %d (%s) is missing", i, was.name()))
			continue
		}
		said = append(said, was.changes(i, left[at])...)
		left = slices.Delete(left, at, at+1)
	}
	said = append(said, gone...)
	for _, g := range left {
		said = append(said, fmt.Sprintf("a GPU at %s (%s) was not accepted", g.PCI, g.name()))
	}
	return said
}

func (g HardwareGPU) name() string {
	if g.Serial != "" {
		return "serial " + g.Serial
	}
	return g.UUID
}

func (g HardwareGPU) changes(i int, is HardwareGPU) (said []string) {
	if is.MaxWidth > 0 && g.MaxWidth != is.MaxWidth {
		said = append(said, fmt.Sprintf("link of GPU %d is x%d, accepted x%d", i, is.MaxWidth, g.MaxWidth))
	}
	if is.NUMA >= 0 && g.NUMA != is.NUMA {
		said = append(said, fmt.Sprintf("GPU %d is on NUMA node %d, accepted %d", i, is.NUMA, g.NUMA))
	}
	for _, f := range []struct{ name, was, is string }{
		{"address", g.PCI, is.PCI}, {"serial", g.Serial, is.Serial}, {"model", g.Model, is.Model}, {"vBIOS", g.VBIOS, is.VBIOS},
	} {
		if f.is != "" && f.was != f.is {
			said = append(said, fmt.Sprintf("%s of GPU %d is %s, accepted %s", f.name, i, f.is, quoted(f.was)))
		}
	}
	if !slices.Equal(g.GroupWith, is.GroupWith) {
		said = append(said, fmt.Sprintf("GPU %d shares its IOMMU group with %s, accepted %s",
			i, quoted(strings.Join(is.GroupWith, " ")), quoted(strings.Join(g.GroupWith, " "))))
	}
	return said
}

func quoted(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
