package task_test

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/protocol"
)

// What the kernel has logged of a device is reported, and a reset that worked ends it.
func TestAResetEndsWhatItMends(t *testing.T) {
	t.Parallel()
	d := &tool{}
	m := machine(t, d)
	inventory, err := m.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := m.Examine(t.Context(), inventory, nil)
	if !says(found.Health, "xid_48") || !found.Whole || found.Topology.GPUs[0].NUMA != 1 || found.Topology.GPUs[0].UUID != gpuA {
		t.Fatalf("%+v", found)
	}
	reset := execute(t, m, protocol.GPUReset)
	d.processes = 1
	if _, err := reset(protocol.GPUResetParams{GPU: gpuA, ExpectIdle: true}); protocol.CodeOf(err) != protocol.SlotBusy || len(d.resets) != 0 {
		t.Errorf("reset a device that is in use: %v", err)
	}
	d.processes = 0
	answer, err := reset(protocol.GPUResetParams{GPU: gpuA, ExpectIdle: true})
	if was, ok := answer.(task.GPUResetAnswer); err != nil || !ok || was.Before.UUID != gpuA || was.After.UUID != gpuA || len(d.resets) != 1 {
		t.Errorf("%+v, %v", answer, err)
	}
	if says(m.Examine(t.Context(), inventory, nil).Health, "xid_48") {
		t.Error("it was reset, and the fault remains")
	}
	if _, err := reset(protocol.GPUResetParams{GPU: strings.Replace(gpuA, "1", "2", 1)}); err == nil {
		t.Error("reset a device that is not here")
	}
}
