//go:build nvml

package nvml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/protocol"
)

// Built returns whether this build can.
const Built = true

// See reads all devices.
func See() (gpu.Reading, error) { return Read(nvml.New()) }

// Read reads all devices of a library. A device without an identity makes the whole result unknown:
// in a partial list the missing GPUs would be reported as removed.
func Read(lib nvml.Interface) (gpu.Reading, error) {
	if err := failed("opening the driver", lib.Init()); err != nil {
		return gpu.Reading{}, err
	}
	defer lib.Shutdown()
	seen := gpu.Reading{Inventory: protocol.Inventory{GPUs: []protocol.GPU{}}, Replays: map[string]int64{}}
	seen.Driver, _ = lib.SystemGetDriverVersion()
	if v, ret := lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
		seen.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	n, ret := lib.DeviceGetCount()
	if err := failed("counting devices", ret); err != nil {
		return gpu.Reading{}, err
	}
	for i := range n {
		d, ret := lib.DeviceGetHandleByIndex(i)
		if err := failed(fmt.Sprintf("opening device %d", i), ret); err != nil {
			return gpu.Reading{}, err
		}
		if err := add(&seen, i, d); err != nil {
			return gpu.Reading{}, fmt.Errorf("device %d: %w", i, err)
		}
	}
	health.MergeHealth(seen.GPUs, seen.Health)
	return seen, nil
}

func failed(doing string, ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return fmt.Errorf("%s: %s", doing, nvml.ErrorString(ret))
}

// value returns the value of a call, or the zero value if the call failed.
func value[T any](v T, ret nvml.Return) (zero T) {
	if ret != nvml.SUCCESS {
		return zero
	}
	return v
}

func add(seen *gpu.Reading, index int, d nvml.Device) error {
	uuid, ret := d.GetUUID()
	if ret != nvml.SUCCESS || !strings.HasPrefix(uuid, "GPU-") {
		return errors.New("it reports no identity")
	}
	g := protocol.GPU{
		Index: index, UUID: uuid, Serial: value(d.GetSerial()), Model: value(d.GetName()), VBIOS: value(d.GetVbiosVersion()), Health: protocol.Healthy,
		PowerLimitMW: int64(value(d.GetEnforcedPowerLimit())), PowerMW: int64(value(d.GetPowerUsage())),
		Celsius: int(value(d.GetTemperature(nvml.TEMPERATURE_GPU))), Utilisation: utilisation(d.GetUtilizationRates()),
		Processes: len(value(d.GetComputeRunningProcesses())), PCI: address(value(d.GetPciInfo())),
	}
	memory := value(d.GetMemoryInfo())
	g.MemoryMiB, g.UsedMiB = int64(memory.Total>>20), int64(memory.Used>>20)
	c := protocol.Card{
		UUID: g.UUID, Serial: g.Serial, Model: g.Model, VBIOS: g.VBIOS, MemoryMiB: g.MemoryMiB, Minor: -1, PCI: g.PCI, NUMA: -1, Group: -1, MIG: mig(d),
		Link: protocol.Link{
			Width: value(d.GetCurrPcieLinkWidth()), MaxWidth: value(d.GetMaxPcieLinkWidth()),
			Speed: speed(value(d.GetCurrPcieLinkGeneration())), MaxSpeed: speed(value(d.GetMaxPcieLinkGeneration())),
		},
	}
	if minor, ret := d.GetMinorNumber(); ret == nvml.SUCCESS {
		c.Minor, g.Index = minor, minor
	}
	if g.MIG = c.MIG.State; g.MIG == "unsupported" {
		g.MIG = ""
	}
	links(d, &c, &g)
	if n, ret := d.GetPcieReplayCounter(); ret == nvml.SUCCESS {
		seen.Replays[uuid] = int64(n)
	}
	seen.GPUs, seen.Cards, seen.Health = append(seen.GPUs, g), append(seen.Cards, c), append(seen.Health, reports(d, g, c)...)
	return nil
}

// utilisation is protocol.UnreadUtilisation if the driver does not report it: zero would be an idle GPU.
func utilisation(u nvml.Utilization, ret nvml.Return) int {
	if ret != nvml.SUCCESS {
		return protocol.UnreadUtilisation
	}
	return int(u.Gpu)
}

func address(p nvml.PciInfo) string {
	var text strings.Builder
	for _, b := range p.BusId {
		if b == 0 {
			break
		}
		text.WriteByte(byte(b))
	}
	if text.Len() == 0 {
		return ""
	}
	return health.PCIAddress(text.String())
}

// speed of a PCIe generation, in thousandths of GT/s.
func speed(generation int) int {
	speeds := []int{0, 2500, 5000, 8000, 16000, 32000, 64000}
	if generation < 0 || generation >= len(speeds) {
		return 0
	}
	return speeds[generation]
}

func mig(d nvml.Device) (m protocol.MIG) {
	mode, _, ret := d.GetMigMode()
	switch {
	case ret == nvml.ERROR_NOT_SUPPORTED:
		return protocol.MIG{State: "unsupported"}
	case ret != nvml.SUCCESS:
		return m
	case mode == nvml.DEVICE_MIG_ENABLE:
		m.State = "enabled"
	default:
		m.State = "disabled"
	}
	for id := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, ret := d.GetGpuInstanceProfileInfo(id)
		if ret != nvml.SUCCESS {
			continue
		}
		p := protocol.MIGProfile{
			ID: int(info.Id), Name: fmt.Sprintf("%dg.%dgb", info.SliceCount, (info.MemorySizeMB+512)/1024), Slices: int(info.SliceCount),
			MemoryMiB: int64(info.MemorySizeMB), Instances: int(info.InstanceCount),
		}
		for _, at := range value(d.GetGpuInstancePossiblePlacements(&info)) {
			p.Placements = append(p.Placements, int(at.Start))
		}
		m.Profiles = append(m.Profiles, p)
	}
	return m
}

func links(d nvml.Device, c *protocol.Card, g *protocol.GPU) {
	for i := range nvml.NVLINK_MAX_LINKS {
		state, ret := d.GetNvLinkState(i)
		if ret != nvml.SUCCESS {
			continue
		}
		l := protocol.NVLink{Link: i, Up: state == nvml.FEATURE_ENABLED, Peer: address(value(d.GetNvLinkRemotePciInfo(i)))}
		if l.Up {
			g.NVLinks++
		}
		c.NVLinks = append(c.NVLinks, l)
	}
}

var recoveries = map[nvml.DeviceGpuRecoveryAction]string{
	nvml.GPU_RECOVERY_ACTION_GPU_RESET: "recovery_gpu_reset", nvml.GPU_RECOVERY_ACTION_NODE_REBOOT: "recovery_node_reboot",
	nvml.GPU_RECOVERY_ACTION_DRAIN_P2P: "recovery_drain_p2p", nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET: "recovery_drain_and_reset",
	nvml.GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN: "recovery_imex_domain",
}

const source = "driver"

// reports lists the faults that the driver reports, its recovery action first.
func reports(d nvml.Device, g protocol.GPU, c protocol.Card) (all []protocol.HealthReport) {
	add := func(when bool, check, message string) {
		if when {
			all = append(all, health.NewReport(source, g.UUID, check, message))
		}
	}
	_, lost := d.GetMemoryInfo()
	add(lost == nvml.ERROR_GPU_IS_LOST, "gpu_lost", "")
	if action := recovery(d); action != nvml.GPU_RECOVERY_ACTION_NONE {
		check := recoveries[action]
		if check == "" {
			check = "recovery_other"
		}
		add(true, check, "")
	}
	_, _, pending, failure, ret := d.GetRemappedRows()
	add(ret == nvml.SUCCESS && failure, "row_remap_failed", "")
	if n := value(d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)); n > 0 {
		add(true, "ecc_uncorrected", fmt.Sprintf("%d uncorrected memory errors", n))
	}
	add(ret == nvml.SUCCESS && pending, "row_remap_pending", "")
	reasons := value(d.GetCurrentClocksEventReasons())
	add(reasons&nvml.ClocksThrottleReasonHwThermalSlowdown != 0, "thermal", "")
	add(reasons&nvml.ClocksThrottleReasonHwPowerBrakeSlowdown != 0, "power_brake", "")
	add(g.MemoryMiB == 0 && lost != nvml.ERROR_GPU_IS_LOST, "gpu_unknown", "memory size is not known")
	if len(all) == 0 {
		all = append(all, health.Well(source, g.UUID))
	}
	down := len(c.NVLinks) - g.NVLinks
	switch {
	case g.NVLinks > 0 && down > 0:
		all = append(all, health.NewReport("nvlink", g.UUID, "nvlink_down", fmt.Sprintf("%d of %d NVLinks are down", down, len(c.NVLinks))))
	case len(c.NVLinks) > 0:
		all = append(all, health.Well("nvlink", g.UUID))
	}
	return all
}

func recovery(d nvml.Device) nvml.DeviceGpuRecoveryAction {
	values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	if ret := d.GetFieldValues(values); ret != nvml.SUCCESS || nvml.Return(values[0].NvmlReturn) != nvml.SUCCESS {
		return nvml.GPU_RECOVERY_ACTION_NONE // drivers before 570 do not know the question
	}
	return nvml.DeviceGpuRecoveryAction(binary.LittleEndian.Uint32(values[0].Value[:4]))
}
