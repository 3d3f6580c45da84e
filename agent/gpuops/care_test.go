package gpuops_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/gpuops"
	"github.com/gpuaas/gpuaas/agent/runner"
	"github.com/gpuaas/gpuaas/agent/scrub"
	"github.com/gpuaas/gpuaas/protocol"
)

const gpuA = "GPU-0000aaaa-0000-0000-0000-000000000001"

// tool is a driver of one board.
type tool struct {
	processes int
	err       error
	resets    []string
}

func (d *tool) See(context.Context) (gpu.Seen, error) {
	if d.err != nil {
		return gpu.Seen{}, d.err
	}
	return gpu.Seen{
		Inventory: protocol.Inventory{GPUs: []protocol.GPU{{UUID: gpuA, PCI: "0000:1b:00.0", MemoryMiB: 1, Processes: d.processes, Health: protocol.Healthy}}},
		Cards:     []protocol.Card{{UUID: gpuA, PCI: "0000:1b:00.0", Minor: 0}},
		Health:    []protocol.HealthReport{{Source: "driver", Target: gpuA, Level: protocol.Healthy}},
	}, nil
}

func (d *tool) Reset(_ context.Context, uuid string) error {
	d.resets = append(d.resets, uuid)
	return d.err
}

func machine(t *testing.T, d *tool) *gpuops.Machine {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/sys/kernel/random/boot_id":             "b1\n",
		"sys/bus/pci/devices/0000:1b:00.0/vendor":    "0x10de\n",
		"sys/bus/pci/devices/0000:1b:00.0/device":    "0x2330\n",
		"sys/bus/pci/devices/0000:1b:00.0/class":     "0x030200\n",
		"sys/bus/pci/devices/0000:1b:00.0/numa_node": "1\n",
		"dev/kmsg": "4,1,1,-;NVRM: Xid (PCI:0000:1b:00): 48, pid=1\n",
		"home/x":   "", "tmp/x": "",
	} {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := gpuops.Open(t.Context(), gpuops.Options{Tool: d, Root: root, StateDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func job(t *testing.T, kind protocol.Type, params any) runner.Job {
	t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	return runner.Job{Envelope: protocol.Envelope{Type: kind, Params: text}, Begin: func(string) error { return nil }}
}

func says(reports []protocol.HealthReport, check string) bool {
	return slices.ContainsFunc(reports, func(r protocol.HealthReport) bool { return r.Check == check && r.Target == gpuA })
}

// What the kernel said of a device is reported, and a reset that worked ends it.
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
	reset := gpuops.Handlers(m)[protocol.GPUReset]
	d.processes = 1
	if _, err := reset(t.Context(), job(t, protocol.GPUReset, protocol.GPUResetParams{GPU: gpuA, ExpectIdle: true})); protocol.CodeOf(err) != protocol.SlotBusy || len(d.resets) != 0 {
		t.Errorf("reset a device that is in use: %v", err)
	}
	d.processes = 0
	answer, err := reset(t.Context(), job(t, protocol.GPUReset, protocol.GPUResetParams{GPU: gpuA, ExpectIdle: true}))
	if was, ok := answer.(gpuops.Was); err != nil || !ok || was.Before.UUID != gpuA || was.After.UUID != gpuA || len(d.resets) != 1 {
		t.Errorf("%+v, %v", answer, err)
	}
	if says(m.Examine(t.Context(), inventory, nil).Health, "xid_48") {
		t.Error("it was reset, and the fault stands")
	}
	if _, err := reset(t.Context(), job(t, protocol.GPUReset, protocol.GPUResetParams{GPU: strings.Replace(gpuA, "1", "2", 1)})); err == nil {
		t.Error("reset a device that is not here")
	}
}

// A driver that does not answer is what a check is to find, and no fault of the check.
func TestAHealthCheckSaysWhatItSees(t *testing.T) {
	t.Parallel()
	d := &tool{}
	m := machine(t, d)
	check := gpuops.Handlers(m)[protocol.HealthCheck]
	answer, err := check(t.Context(), job(t, protocol.HealthCheck, protocol.HealthCheckParams{Level: 1}))
	if c, ok := answer.(gpuops.Checked); err != nil || !ok || c.Level != 1 || !says(c.Health, "xid_48") {
		t.Errorf("%+v, %v", answer, err)
	}
	d.processes = 1
	if _, err := check(t.Context(), job(t, protocol.HealthCheck, protocol.HealthCheckParams{Level: 3})); protocol.CodeOf(err) != protocol.SlotBusy {
		t.Errorf("a long check beside a tenant: %v", err)
	}
	d.err = errors.New("hangs")
	answer, err = check(t.Context(), job(t, protocol.HealthCheck, protocol.HealthCheckParams{Level: 0}))
	if c, ok := answer.(gpuops.Checked); err != nil || !ok || !slices.ContainsFunc(c.Health, func(r protocol.HealthReport) bool { return r.Check == "driver_silent" }) {
		t.Errorf("%+v, %v", answer, err)
	}
}

// A scrub that did not happen is none.
func TestABuildWithoutCUDASaysSo(t *testing.T) {
	t.Parallel()
	if r, err := scrub.GPU(gpuA); err == nil || r.Samples != 0 {
		t.Errorf("%+v", r)
	}
	if _, err := scrub.GPU("all"); err == nil || errors.Is(err, scrub.ErrUnable) {
		t.Errorf("%v", err)
	}
}
