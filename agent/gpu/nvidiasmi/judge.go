package nvidiasmi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/agent/wire"
)

// judge lowers the health of g by what the tool says. The driver's own verdict,
// the recovery action, comes first: it knows what a counter means.
func (dev device) judge(g *wire.GPU) {
	if slices.ContainsFunc([]string{dev.Total, dev.Used, dev.Util, dev.Temp, dev.Draw, dev.Remapped.Text}, isLost) {
		health.Worsen(g, wire.Unhealthy, "lost: fallen off the bus")
	}
	if action := known(dev.Recovery); action != "" {
		health.Worsen(g, wire.Unhealthy, "driver asks for recovery: "+strings.ToLower(action))
	}
	if yes(dev.Remapped.Failure) {
		health.Worsen(g, wire.Unhealthy, "row remap failed")
	}
	if n := dev.Volatile.uncorrected(); n > 0 {
		health.Worsen(g, wire.Unhealthy, fmt.Sprintf("%d uncorrected memory errors", n))
	}
	if yes(dev.Remapped.Pending) {
		health.Worsen(g, wire.Degraded, "row remap waits for a reset")
	}
	if yes(dev.Retiring) {
		health.Worsen(g, wire.Degraded, "page retirement waits for a reset")
	}
	if strings.EqualFold(known(dev.Thermal), "active") {
		health.Worsen(g, wire.Degraded, "slowed down by heat")
	}
	if g.MemoryMiB == 0 && g.Health == wire.Healthy {
		// A board that does not say how much memory it has was not read.
		health.Worsen(g, wire.Unknown, "memory size is not known")
	}
}

func (e errorsOf) uncorrected() (sum int64) {
	for _, s := range []string{e.Dram, e.Parity, e.Secded, e.Old} {
		if n, ok := integer(s); ok {
			sum += n
		}
	}
	return sum
}

func yes(s string) bool { return strings.EqualFold(known(s), "yes") }
