//go:build nvml

package nvml_test

import (
	"slices"
	"strings"
	"testing"

	lib "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/gpuaas/gpuaas/agent/gpu/nvml"
	"github.com/gpuaas/gpuaas/protocol"
)

// ill is the mock's device with what the mock lacks, and the faults of a test: a
// method of the mock that is not set panics.
type ill struct {
	*dgxa100.Device

	lost, hot, remapFailed bool
	ecc                    uint64
	recovery               byte
	linksDown              int
	registered             bool
}

func (d *ill) GetSerial() (string, lib.Return)             { return "1650000000001", lib.SUCCESS }
func (d *ill) GetVbiosVersion() (string, lib.Return)       { return "92.00.45.00.03", lib.SUCCESS }
func (d *ill) GetEnforcedPowerLimit() (uint32, lib.Return) { return 400000, lib.SUCCESS }
func (d *ill) GetPowerUsage() (uint32, lib.Return)         { return 52000, lib.SUCCESS }
func (d *ill) GetUtilizationRates() (lib.Utilization, lib.Return) {
	return lib.Utilization{Gpu: 7}, lib.SUCCESS
}

func (d *ill) GetComputeRunningProcesses() ([]lib.ProcessInfo, lib.Return) {
	return nil, lib.SUCCESS
}
func (d *ill) GetCurrPcieLinkWidth() (int, lib.Return)      { return 16, lib.SUCCESS }
func (d *ill) GetMaxPcieLinkWidth() (int, lib.Return)       { return 16, lib.SUCCESS }
func (d *ill) GetCurrPcieLinkGeneration() (int, lib.Return) { return 1, lib.SUCCESS }
func (d *ill) GetMaxPcieLinkGeneration() (int, lib.Return)  { return 4, lib.SUCCESS }
func (d *ill) GetPcieReplayCounter() (int, lib.Return)      { return 150, lib.SUCCESS }
func (d *ill) GetTemperature(lib.TemperatureSensors) (uint32, lib.Return) {
	return 30, lib.SUCCESS
}

func (d *ill) GetPciInfo() (p lib.PciInfo, ret lib.Return) {
	for i, b := range []byte("0000" + strings.ToUpper(d.PciBusID)) {
		p.BusId[i] = int8(b)
	}
	return p, lib.SUCCESS
}

func (d *ill) GetMemoryInfo() (lib.Memory, lib.Return) {
	if d.lost {
		return lib.Memory{}, lib.ERROR_GPU_IS_LOST
	}
	return d.Device.GetMemoryInfo()
}

func (d *ill) GetTotalEccErrors(lib.MemoryErrorType, lib.EccCounterType) (uint64, lib.Return) {
	return d.ecc, lib.SUCCESS
}

func (d *ill) GetRemappedRows() (int, int, bool, bool, lib.Return) {
	return 0, 0, false, d.remapFailed, lib.SUCCESS
}

func (d *ill) GetCurrentClocksEventReasons() (reasons uint64, ret lib.Return) {
	if d.hot {
		reasons = lib.ClocksThrottleReasonHwThermalSlowdown
	}
	return reasons, lib.SUCCESS
}

func (d *ill) GetFieldValues(values []lib.FieldValue) lib.Return {
	values[0].Value[0] = d.recovery
	return lib.SUCCESS
}

func (d *ill) GetNvLinkState(link int) (lib.EnableState, lib.Return) {
	switch {
	case link >= 12:
		return 0, lib.ERROR_INVALID_ARGUMENT
	case link < d.linksDown:
		return lib.FEATURE_DISABLED, lib.SUCCESS
	}
	return lib.FEATURE_ENABLED, lib.SUCCESS
}

func (d *ill) GetNvLinkRemotePciInfo(int) (lib.PciInfo, lib.Return) {
	return lib.PciInfo{}, lib.ERROR_NOT_SUPPORTED
}

func server(faults map[int]func(*ill)) *dgxa100.Server {
	s := dgxa100.New()
	for i, d := range s.Devices {
		wrapped := &ill{Device: d.(*dgxa100.Device)} //nolint:forcetypeassert // the mock's own
		if fault := faults[i]; fault != nil {
			fault(wrapped)
		}
		s.Devices[i] = wrapped
	}
	return s
}

func TestEightBoards(t *testing.T) {
	t.Parallel()
	seen, err := nvml.Read(server(nil))
	if err != nil || len(seen.GPUs) != 8 || seen.Driver != "550.54.15" || seen.CUDA != "12.4" {
		t.Fatalf("%+v, %v", seen, err)
	}
	c := seen.Cards[3]
	if c.Minor != 3 || c.PCI != "0000:03:00.0" || c.MemoryMiB != 40960 || c.Link != (protocol.Link{Width: 16, MaxWidth: 16, Speed: 2500, MaxSpeed: 16000}) || len(c.NVLinks) != 12 {
		t.Errorf("%+v", c)
	}
	// An A100 is cut into up to seven of one slice, which may begin anywhere.
	i := slices.IndexFunc(c.MIG.Profiles, func(p protocol.MIGProfile) bool { return p.Name == "1g.5gb" && p.Instances == 7 })
	if c.MIG.State != "disabled" || i < 0 || len(c.MIG.Profiles[i].Placements) != 7 {
		t.Errorf("%+v", c.MIG)
	}
	for _, g := range seen.GPUs {
		if g.Health != protocol.Healthy || g.NVLinks != 12 || seen.Replays[g.UUID] != 150 {
			t.Errorf("%+v", g)
		}
	}
}

func TestFaultsOfBoards(t *testing.T) {
	t.Parallel()
	for check, c := range map[string]struct {
		fault  func(*ill)
		health protocol.Health
	}{
		"gpu_lost":                 {func(d *ill) { d.lost = true }, protocol.Unhealthy},
		"thermal":                  {func(d *ill) { d.hot = true }, protocol.Degraded},
		"row_remap_failed":         {func(d *ill) { d.remapFailed = true }, protocol.Unhealthy},
		"ecc_uncorrected":          {func(d *ill) { d.ecc = 3 }, protocol.Unhealthy},
		"recovery_node_reboot":     {func(d *ill) { d.recovery = 2 }, protocol.Unhealthy},
		"recovery_drain_and_reset": {func(d *ill) { d.recovery = 4 }, protocol.Unhealthy},
		"recovery_other":           {func(d *ill) { d.recovery = 99 }, protocol.Unhealthy},
		"nvlink_down":              {func(d *ill) { d.linksDown = 2 }, protocol.Unhealthy},
	} {
		t.Run(check, func(t *testing.T) {
			t.Parallel()
			seen, err := nvml.Read(server(map[int]func(*ill){5: c.fault}))
			if err != nil {
				t.Fatal(err)
			}
			for i, g := range seen.GPUs {
				said := slices.ContainsFunc(seen.Health, func(r protocol.HealthReport) bool { return r.Target == g.UUID && r.Check == check })
				if said != (i == 5) || (g.Health == c.health) != (i == 5) && c.health != protocol.Healthy {
					t.Errorf("GPU %d is %s: %v", i, g.Health, g.Reasons)
				}
			}
			if err := protocol.CheckHealth(seen.Health); err != nil {
				t.Error(err)
			}
		})
	}
}

// The GPUs that half a list lacks would be reported as gone.
func TestADriverThatFailsIsUnknown(t *testing.T) {
	t.Parallel()
	s := server(nil)
	s.DeviceGetHandleByIndexFunc = func(i int) (lib.Device, lib.Return) {
		if i == 7 {
			return nil, lib.ERROR_UNKNOWN
		}
		return s.Devices[i], lib.SUCCESS
	}
	if seen, err := nvml.Read(s); err == nil {
		t.Errorf("%+v", seen)
	}
	s.InitFunc = func() lib.Return { return lib.ERROR_DRIVER_NOT_LOADED }
	if _, err := nvml.Read(s); err == nil {
		t.Error("read a driver that is not loaded")
	}
	if _, err := nvml.See(); err == nil {
		t.Log("this computer has NVML")
	}
}
