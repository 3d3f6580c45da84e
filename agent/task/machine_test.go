package task_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/gpuops"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/protocol"
)

const gpuA = "GPU-0000aaaa-0000-0000-0000-000000000001"

// tool is a driver of one board.
type tool struct {
	processes int
	err       error
	resets    []string
}

func (d *tool) See(context.Context) (gpu.Reading, error) {
	if d.err != nil {
		return gpu.Reading{}, d.err
	}
	return gpu.Reading{
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

// execute returns a function that runs a task of the type on the node.
func execute(t *testing.T, m *gpuops.Machine, kind protocol.Type) func(params any) (answer any, err error) {
	t.Helper()
	return func(params any) (any, error) {
		text, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		found, err := task.Of(kind).Run(t.Context(), &task.Execution{
			Backend: task.Backend{Devices: m}, Envelope: protocol.Envelope{Type: kind, Params: text},
			Begin: func(string) error { return nil }, At: func(string, time.Duration) {}, Progress: func(string, int, int) {},
		})
		return found.Answer, err
	}
}

func says(reports []protocol.HealthReport, check string) bool {
	return slices.ContainsFunc(reports, func(r protocol.HealthReport) bool { return r.Check == check && r.Target == gpuA })
}
