package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Profile describes the hardware of a simulated node with the values that such nodes report.
type Profile struct {
	Name         string
	Model        string
	Architecture string
	MemoryMiB    int
	ReservedMiB  int
	Watts        int
	IdleWatts    int
	NVLinks      int
	LinkSpeed    string // per link and direction, as nvidia-smi nvlink -s prints it
	MIG          string // the output of the driver while it is off
	VBIOS        string
	PCI          []string // one address per GPU
}

// The driver that all profiles run.
const (
	driverVersion = "580.105.08"
	cudaVersion   = "13.0"
)

var profiles = map[string]Profile{
	"h100-8": {
		Name: "h100-8", Model: "NVIDIA H100 80GB HBM3", Architecture: "Hopper", MemoryMiB: 81559, ReservedMiB: 480, Watts: 700, IdleWatts: 69,
		NVLinks: 18, LinkSpeed: "26.562 GB/s", MIG: "Disabled", VBIOS: "96.00.99.00.01",
		PCI: pciBuses("53", "64", "75", "86", "97", "a8", "b9", "ca"),
	},
	"a100-8": {
		Name: "a100-8", Model: "NVIDIA A100-SXM4-40GB", Architecture: "Ampere", MemoryMiB: 40960, ReservedMiB: 583, Watts: 400, IdleWatts: 52,
		NVLinks: 12, LinkSpeed: "25 GB/s", MIG: "Disabled", VBIOS: "92.00.45.00.03",
		PCI: pciBuses("07", "0f", "47", "4e", "87", "90", "b7", "bd"),
	},
	"l40s-4": {
		Name: "l40s-4", Model: "NVIDIA L40S", Architecture: "Ada Lovelace", MemoryMiB: 46068, ReservedMiB: 598, Watts: 350, IdleWatts: 35,
		MIG: "N/A", VBIOS: "95.02.66.00.15", PCI: pciBuses("30", "31", "b0", "b1"),
	},
	"t4-4": {
		Name: "t4-4", Model: "Tesla T4", Architecture: "Turing", MemoryMiB: 15360, ReservedMiB: 451, Watts: 70, IdleWatts: 10,
		MIG: "N/A", VBIOS: "90.04.96.00.02", PCI: pciBuses("1b", "1c", "1d", "1e"),
	},
}

// Profiles lists the names of the hardware profiles.
func Profiles() []string { return slices.Sorted(maps.Keys(profiles)) }

func profileOf(name string) (Profile, error) {
	p, ok := profiles[name]
	if !ok {
		return Profile{}, fmt.Errorf("hardware profile %q does not exist; the profiles are %s", name, strings.Join(Profiles(), ", "))
	}
	return p, nil
}

func pciBuses(buses ...string) (addresses []string) {
	for _, bus := range buses {
		addresses = append(addresses, "0000:"+bus+":00.0")
	}
	return addresses
}
