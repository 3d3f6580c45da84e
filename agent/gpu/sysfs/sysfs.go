// Package sysfs reads the topology of the hardware from files of the kernel, below a root that
// tests replace. It calls no driver, so that it also works while a driver hangs. The driver
// contributes the names of its devices.
package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/protocol"
)

// Tree is the kernel's files of one node.
type Tree struct {
	Root string // before /sys and /proc; empty: those of this node
}

// Read reads the whole topology. Missing lists the parts that could not be read, because an
// incomplete tree proves no absence.
func (t Tree) Read() protocol.Topology {
	var h protocol.Topology
	for _, part := range []struct {
		name string
		read func(*protocol.Topology) error
	}{
		{"machine", t.firmware}, {"processors", t.processors}, {"numa", t.numa}, {"pci", t.cards}, {"network", t.nics}, {"disks", t.disks},
	} {
		if err := part.read(&h); err != nil {
			h.Missing = append(h.Missing, part.name+": "+err.Error())
		}
	}
	return h
}

func (t Tree) path(elements ...string) string {
	return filepath.Join(t.Root, "/", filepath.Join(elements...))
}

// text is the one line of a file, or empty.
func (t Tree) text(elements ...string) string {
	line, err := os.ReadFile(t.path(elements...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(line))
}

// number is that of a file, or -1.
func (t Tree) number(elements ...string) int {
	n, err := strconv.Atoi(t.text(elements...))
	if err != nil {
		return -1
	}
	return n
}

func (t Tree) list(elements ...string) ([]string, error) {
	found, err := os.ReadDir(t.path(elements...))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = f.Name()
	}
	return names, nil
}

const dmi = "sys/class/dmi/id"

// firmware accepts missing files: a VM and a board without firmware tables have none.
func (t Tree) firmware(h *protocol.Topology) error {
	h.Machine = protocol.Machine{
		Vendor: t.text(dmi, "sys_vendor"), Product: t.text(dmi, "product_name"), Serial: t.text(dmi, "product_serial"),
		UUID: t.text(dmi, "product_uuid"), BIOS: t.text(dmi, "bios_version"),
		Board: t.text(dmi, "board_serial"),
	}
	return nil
}

const nodes = "sys/devices/system/node"

var memTotal = regexp.MustCompile(`MemTotal:\s+([0-9]+) kB`)

func (t Tree) numa(h *protocol.Topology) error {
	h.NUMA = []protocol.NUMA{}
	names, err := t.list(nodes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without NUMA
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		id, err := strconv.Atoi(strings.TrimPrefix(name, "node"))
		if err != nil || !strings.HasPrefix(name, "node") {
			continue
		}
		n := protocol.NUMA{ID: id, CPUs: t.text(nodes, name, "cpulist")}
		if m := memTotal.FindStringSubmatch(t.text(nodes, name, "meminfo")); m != nil {
			kib, _ := strconv.ParseInt(m[1], 10, 64)
			n.MemoryMiB = kib / 1024
		}
		for word := range strings.FieldsSeq(t.text(nodes, name, "distance")) {
			d, _ := strconv.Atoi(word)
			n.Distances = append(n.Distances, d)
		}
		h.NUMA = append(h.NUMA, n)
	}
	slices.SortFunc(h.NUMA, func(a, b protocol.NUMA) int { return cmp.Compare(a.ID, b.ID) })
	return nil
}

const devices = "sys/bus/pci/devices"

// PCI classes, as their numbers begin.
const (
	classVGA  = "0x0300"
	class3D   = "0x0302"
	vendorGPU = "0x10de"
)

func (t Tree) cards(h *protocol.Topology) error {
	h.GPUs = []protocol.Card{}
	names, err := t.list(devices)
	if err != nil {
		return err
	}
	for _, pci := range names {
		class := t.text(devices, pci, "class")
		if t.text(devices, pci, "vendor") != vendorGPU || !strings.HasPrefix(class, classVGA) && !strings.HasPrefix(class, class3D) {
			continue
		}
		c, err := t.card(pci)
		if err != nil {
			return fmt.Errorf("%s: %w", pci, err)
		}
		h.GPUs = append(h.GPUs, c)
	}
	slices.SortFunc(h.GPUs, func(a, b protocol.Card) int { return cmp.Compare(a.PCI, b.PCI) })
	return nil
}

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

func (t Tree) card(pci string) (protocol.Card, error) {
	c := protocol.Card{
		PCI: pci, Minor: -1, NUMA: t.number(devices, pci, "numa_node"), CPUs: t.text(devices, pci, "local_cpulist"),
		Device: strings.TrimPrefix(t.text(devices, pci, "vendor"), "0x") + ":" + strings.TrimPrefix(t.text(devices, pci, "device"), "0x"),
		Group:  -1, Resets: strings.Fields(t.text(devices, pci, "reset_method")), SRIOV: max(t.number(devices, pci, "sriov_totalvfs"), 0),
	}
	where, err := filepath.EvalSymlinks(t.path(devices, pci))
	if err != nil {
		return c, err
	}
	for step := range strings.SplitSeq(where, string(filepath.Separator)) {
		switch {
		case strings.HasPrefix(step, "pci") && strings.Contains(step, ":"):
			c.Root = step
		case pciAddress.MatchString(step) && step != pci:
			c.Switches = append(c.Switches, step)
		}
	}
	c.Link = t.link(pci, c.Switches)
	t.group(&c)
	t.driver(&c)
	return c, nil
}

// link: what it could ever be is the lesser of what card and slot can.
func (t Tree) link(pci string, above []string) protocol.Link {
	l := protocol.Link{
		Width: max(t.number(devices, pci, "current_link_width"), 0), MaxWidth: max(t.number(devices, pci, "max_link_width"), 0),
		Speed: speed(t.text(devices, pci, "current_link_speed")), MaxSpeed: speed(t.text(devices, pci, "max_link_speed")),
	}
	if len(above) == 0 {
		return l
	}
	port := above[len(above)-1]
	if w := t.number(devices, port, "max_link_width"); w > 0 {
		l.MaxWidth = min(l.MaxWidth, w)
	}
	if s := speed(t.text(devices, port, "max_link_speed")); s > 0 {
		l.MaxSpeed = min(l.MaxSpeed, s)
	}
	return l
}

// speed reads "32.0 GT/s PCIe" in thousandths.
func speed(text string) int {
	number, _, _ := strings.Cut(text, " ")
	whole, part, _ := strings.Cut(number, ".")
	n, err := strconv.Atoi(whole + (part + "000")[:3])
	if err != nil {
		return 0
	}
	return n
}

func (t Tree) group(c *protocol.Card) {
	to, err := os.Readlink(t.path(devices, c.PCI, "iommu_group"))
	if err != nil {
		return
	}
	if c.Group, err = strconv.Atoi(filepath.Base(to)); err != nil {
		c.Group = -1
		return
	}
	members, err := t.list("sys/kernel/iommu_groups", strconv.Itoa(c.Group), "devices")
	if err != nil {
		return
	}
	for _, m := range members {
		if m != c.PCI {
			c.GroupWith = append(c.GroupWith, m)
		}
	}
	slices.Sort(c.GroupWith)
}

// driver reads the version of NVIDIA's kernel module, which answers where its tools hang:
// the number of the device file, and the UUID.
func (t Tree) driver(c *protocol.Card) {
	for line := range strings.Lines(t.text("proc/driver/nvidia/gpus", c.PCI, "information")) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "GPU UUID":
			if strings.HasPrefix(value, "GPU-") && !strings.Contains(value, "?") {
				c.UUID = value
			}
		case "Model":
			c.Model = value
		case "Video BIOS":
			if !strings.Contains(value, "?") {
				c.VBIOS = value
			}
		case "Device Minor":
			if n, err := strconv.Atoi(value); err == nil {
				c.Minor = n
			}
		}
	}
}

const networks = "sys/class/net"

// nics are those on a bus: bridges, tunnels and the like have no device.
func (t Tree) nics(h *protocol.Topology) error {
	names, err := t.list(networks)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		at, err := filepath.EvalSymlinks(t.path(networks, name, "device"))
		if err != nil || !pciAddress.MatchString(filepath.Base(at)) {
			continue
		}
		pci := filepath.Base(at)
		n := protocol.NIC{
			Name: name, PCI: pci, MAC: t.text(networks, name, "address"), NUMA: t.number(devices, pci, "numa_node"), Mbps: max(t.number(networks, name, "speed"), 0),
		}
		if driver, err := os.Readlink(t.path(devices, pci, "driver")); err == nil {
			n.Driver = filepath.Base(driver)
		}
		if rdma, err := t.list(devices, pci, "infiniband"); err == nil && len(rdma) > 0 {
			n.RDMA = rdma[0]
		}
		n.Serial = deviceSerial(t.raw(devices, pci, "config"))
		h.NICs = append(h.NICs, n)
	}
	return nil
}

const blocks = "sys/block"

// disks omits devices that consist of other devices, and devices in memory.
func (t Tree) disks(h *protocol.Topology) error {
	names, err := t.list(blocks)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		at, err := filepath.EvalSymlinks(t.path(blocks, name, "device"))
		if err != nil {
			continue
		}
		d := protocol.Disk{Name: name, Model: t.text(blocks, name, "device", "model"), Serial: t.text(blocks, name, "device", "serial"), Spins: t.text(blocks, name, "queue/rotational") == "1"}
		if sectors, err := strconv.ParseInt(t.text(blocks, name, "size"), 10, 64); err == nil {
			d.GiB = sectors / (2 << 20) // of 512 bytes, whatever the disk's own are
		}
		for step := range strings.SplitSeq(at, string(filepath.Separator)) {
			if pciAddress.MatchString(step) {
				d.PCI = step
			}
		}
		h.Disks = append(h.Disks, d)
	}
	return nil
}
