package nvidiasmi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/protocol/fault"
)

// finding is one fault that the tool reports.
type finding struct{ check, message string }

// recoveries are the recovery actions that the driver recommends. Any other value except "none" is
// also a fault.
var recoveries = map[string]string{
	"gpu reset": "recovery_gpu_reset", "reset": "recovery_gpu_reset", "bus reset": "recovery_bus_reset", "drain and reset": "recovery_drain_and_reset",
	"drain p2p": "recovery_drain_p2p", "recover imex domain": "recovery_imex_domain", "node reboot": "recovery_node_reboot", "reboot": "recovery_node_reboot",
	"system reboot": "recovery_system_reboot",
}

// tooManyPages is the number of retired pages at which NVIDIA replaces a board: the table of pages is
// full.
const tooManyPages = 64

// findings lists the faults that the tool reports. The recovery action of the driver is the first,
// because the driver knows the meaning of its counters.
func (dev device) findings() (all []finding) {
	add := func(when bool, check, message string) {
		if when {
			all = append(all, finding{check, message})
		}
	}
	add(slices.ContainsFunc([]string{dev.Total, dev.Used, dev.Util, dev.Temp, dev.Draw, dev.Remapped.Text}, isLost), "gpu_lost", "lost: fallen off the bus")
	if action := strings.ToLower(textOrEmpty(dev.Recovery)); action != "" {
		check := recoveries[action]
		if check == "" {
			check = "recovery_other"
		}
		all = append(all, finding{check, "driver requests recovery: " + action})
	}
	add(yes(dev.Remapped.Failure), "row_remap_failed", "row remap failed")
	if n := dev.Volatile.uncorrected(); n > 0 {
		all = append(all, finding{"ecc_uncorrected", fmt.Sprintf("%d uncorrected memory errors", n)})
	}
	pages := dev.pages()
	add(pages >= tooManyPages, "pages_retired", "too many pages are retired")
	add(yes(dev.Remapped.Pending), "row_remap_pending", "row remap waits for a reset")
	add(yes(dev.Retiring), "pages_retiring", "page retirement waits for a reset")
	add(strings.EqualFold(textOrEmpty(dev.Thermal), "active"), "thermal", "slowed down by heat")
	add(strings.EqualFold(textOrEmpty(dev.PowerBrake), "active"), "power_brake", "slowed down by the power supply")
	// The width of the link is not compared: the tool does not have the width of the slot, and
	// reports a healthy board with eight lanes in a virtual machine as one with sixteen.
	if l := dev.link(); l.Speed > 0 && l.Speed < l.MaxSpeed && quantity(dev.Util, "%") >= busy {
		all = append(all, finding{"pcie_speed", "its PCIe link is slow under load"})
	}
	return all
}

// busy is the utilisation above which a link does not save power.
const busy = 50

func (dev device) pages() (sum int64) {
	for _, s := range []string{dev.RetiredSingle, dev.RetiredDouble} {
		n, _ := integer(s)
		sum += n
	}
	return sum
}

// lowerHealth lowers the health of g by the output of the tool.
func (dev device) lowerHealth(g *protocol.GPU) {
	for _, f := range dev.findings() {
		known, _ := fault.Of(f.check)
		health.Worsen(g, known.Rule.Level, f.message)
	}
	if g.MemoryMiB == 0 && g.Health == protocol.Healthy {
		// A board without a size of its memory was not read.
		health.Worsen(g, protocol.Unknown, "memory size is not known")
	}
}

// reports are the findings of a device from its source; one without findings is healthy.
func (dev device) reports(g protocol.GPU) (all []protocol.HealthReport) {
	for _, f := range dev.findings() {
		all = append(all, health.NewReport(Source, g.UUID, f.check, f.message))
	}
	if len(all) == 0 && g.MemoryMiB == 0 {
		all = append(all, health.NewReport(Source, g.UUID, "gpu_unknown", "memory size is not known"))
	}
	if len(all) == 0 {
		all = append(all, health.Well(Source, g.UUID))
	}
	return all
}

// Source names the driver as the source of a health report.
const Source = "driver"

func (e errorsOf) uncorrected() (sum int64) {
	for _, s := range []string{e.Dram, e.Parity, e.Secded, e.Old} {
		if n, ok := integer(s); ok {
			sum += n
		}
	}
	return sum
}

func yes(s string) bool { return strings.EqualFold(textOrEmpty(s), "yes") }
