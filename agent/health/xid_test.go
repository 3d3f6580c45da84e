package health_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/protocol"
)

const kernelLog = `
[12.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.105.08
[99.1] NVRM: Xid (PCI:0000:53:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
[99.2] NVRM: Xid (PCI:0000:64:00): 31, pid=4242, name=python, Ch 00000008, intr 00000000. MMU Fault
[99.3] NVRM: Xid (PCI:00000000:64:00.0): 31, pid=4242, name=python, again
[99.4] NVRM: Xid (PCI:0000:75:00): 45, pid=4242, name=python
[99.5] NVRM: Xid (PCI:0000:86:00): 999, not in any table
[99.6] NVRM: Xid (PCI:bad): 13
`

func TestEventsOfAKernelLog(t *testing.T) {
	t.Parallel()

	events, err := health.Events(strings.NewReader(kernelLog))
	if err != nil {
		t.Fatal(err)
	}
	gpus := []protocol.GPU{
		{PCI: "0000:53:00.0", Health: protocol.Healthy},
		{PCI: "0000:64:00.0", Health: protocol.Healthy},
		{PCI: "0000:75:00.0", Health: protocol.Healthy},
		{PCI: "0000:86:00.0", Health: protocol.Unknown},
	}
	health.Apply(gpus, events)
	want := []protocol.GPU{
		{PCI: "0000:53:00.0", Health: protocol.Unhealthy, Reasons: []string{"xid 79: fallen off the bus"}},
		{PCI: "0000:64:00.0", Health: protocol.Degraded, Reasons: []string{"xid 31: application memory fault"}},
		{PCI: "0000:75:00.0", Health: protocol.Healthy},
		{PCI: "0000:86:00.0", Health: protocol.Unhealthy, Reasons: []string{"xid 999: unexpected"}},
	}
	if d := cmp.Diff(want, gpus); d != "" {
		t.Error(d)
	}
}

func TestHealthOnlyWorsens(t *testing.T) {
	t.Parallel()

	g := protocol.GPU{Health: protocol.Unhealthy}
	health.Worsen(&g, protocol.Degraded, "warm")
	health.Worsen(&g, protocol.Unknown, "silent")
	if g.Health != protocol.Unhealthy || len(g.Reasons) != 2 {
		t.Errorf("%+v", g)
	}
}
