package sysfs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/gpu/sysfs"
	"github.com/gpuaas/gpuaas/protocol"
)

// plant creates a node's files below a folder of the test. Each line of the description is a file and its text, or a
// link and its target.
func plant(t *testing.T, description string, without ...string) string {
	t.Helper()
	root := t.TempDir()
	text, err := os.ReadFile(filepath.Join("testdata", description))
	if err != nil {
		t.Fatal(err)
	}
lines:
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for _, w := range without {
			if strings.Contains(line, w) {
				continue lines
			}
		}
		name, content, file := strings.Cut(line, " = ")
		if !file {
			name, content, _ = strings.Cut(line, " -> ")
		}
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if file {
			err = os.WriteFile(at, []byte(strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(content)+"\n"), 0o644)
		} else {
			err = os.Symlink(content, at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// A node with two sockets with eight boards, two behind each switch.
func TestAMachineOfTwoSockets(t *testing.T) {
	t.Parallel()
	h := sysfs.Tree{Root: plant(t, "two-sockets-8.txt")}.Read()
	if len(h.Missing) > 0 || len(h.GPUs) != 8 || len(h.NUMA) != 2 || len(h.NICs) != 2 || len(h.Disks) != 1 {
		t.Fatalf("%d GPUs, %d NUMA nodes, %d NICs, %d disks, missing %v", len(h.GPUs), len(h.NUMA), len(h.NICs), len(h.Disks), h.Missing)
	}
	want := protocol.Card{
		UUID: "GPU-00000000-0000-0000-0000-000000000005", Model: "NVIDIA H100 80GB HBM3", VBIOS: "96.00.99.00.01", Minor: 5,
		PCI: "0000:9b:00.0", Device: "10de:2330", NUMA: 1, CPUs: "32-63", Root: "pci0000:97", Switches: []string{"0000:97:01.0", "0000:98:00.0", "0000:99:01.0"},
		Group: 45, Link: protocol.Link{Width: 16, MaxWidth: 16, Speed: 2500, MaxSpeed: 32000}, Resets: []string{"flr", "bus"}, SRIOV: 16,
	}
	if d := cmp.Diff(want, h.GPUs[5]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(protocol.Machine{Vendor: "Supermicro", Product: "SYS-821GE-TNHR", Serial: "S1", UUID: "u-1", BIOS: "2.1"}, h.Machine); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(protocol.NUMA{ID: 1, CPUs: "32-63", MemoryMiB: 1032192, Distances: []int{21, 10}}, h.NUMA[1]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(protocol.NIC{Name: "ens1", PCI: "0000:1e:00.0", MAC: "aa:bb:cc:00:00:01", NUMA: 0, Mbps: 400000, Driver: "mlx5_core", RDMA: "mlx5_0"}, h.NICs[0]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(protocol.Disk{Name: "nvme0n1", Model: "SAMSUNG", Serial: "D1", GiB: 1788, PCI: "0000:02:00.0"}, h.Disks[0]); d != "" {
		t.Error(d)
	}
	// What shares a group with a GPU can reach what it reaches.
	if d := cmp.Diff([]string{"0000:1a:00.1"}, h.GPUs[0].GroupWith); d != "" {
		t.Error(d)
	}
	// A slot that is narrower than its card is what counts.
	if l := h.GPUs[7].Link; l.MaxWidth != 8 || l.Width != 8 {
		t.Errorf("%+v", l)
	}
}

// A device that the driver does not name, or that is not on the bus, is missing. Neither counts as changed hardware.
func TestBusAndDriverMustAgree(t *testing.T) {
	t.Parallel()
	host := sysfs.Tree{Root: plant(t, "two-sockets-8.txt", "proc/driver/nvidia/gpus/0000:9b:00.0")}.Read()
	seen := gpu.Reading{}
	for _, c := range host.GPUs {
		if c.PCI != "0000:9b:00.0" {
			seen.Cards = append(seen.Cards, protocol.Card{PCI: c.PCI, UUID: c.UUID, Serial: "s" + c.UUID, Minor: c.Minor, MIG: protocol.MIG{State: "disabled"}})
		}
	}
	whole := gpu.Merge(host, seen)
	if d := cmp.Diff([]string{"gpu 0000:9b:00.0: the driver reports nothing"}, whole.Missing); d != "" || len(whole.GPUs) != 8 {
		t.Error(d)
	}
	seen.Cards = append(seen.Cards, protocol.Card{PCI: "0000:ff:00.0", UUID: "x", Minor: -1}, protocol.Card{PCI: "0000:9b:00.0", UUID: "y", Minor: -1})
	if whole = gpu.Merge(host, seen); !cmp.Equal(whole.Missing, []string{"gpu 0000:ff:00.0: not on the bus"}) || len(whole.GPUs) != 9 {
		t.Errorf("%v", whole.Missing)
	}
	if whole.GPUs[0].Serial != "s"+whole.GPUs[0].UUID || whole.GPUs[0].NUMA != 0 || whole.GPUs[0].Link.MaxWidth != 16 {
		t.Errorf("%+v", whole.GPUs[0])
	}
}

// The local computer may have any hardware; reading it must never fail as a whole.
func TestThisMachineIsRead(t *testing.T) {
	t.Parallel()
	h := sysfs.Tree{}.Read()
	t.Logf("%d NUMA nodes, %d GPUs, %d NICs, %d disks, missing %v", len(h.NUMA), len(h.GPUs), len(h.NICs), len(h.Disks), h.Missing)
	if empty := (sysfs.Tree{Root: t.TempDir()}).Read(); len(empty.Missing) != 1 || !strings.HasPrefix(empty.Missing[0], "pci: ") {
		t.Errorf("%v", empty.Missing)
	}
}
