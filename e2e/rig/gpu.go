package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The doubles are one program with several names.
const (
	// SMI is the path of the double of nvidia-smi on a container.
	SMI = "/usr/bin/nvidia-smi"
	// Scrub is the path of the double of the program that overwrites a GPU's memory.
	Scrub = "/usr/local/sbin/gpuaas-scrub"
	// State is the folder of the simulated hardware that the doubles print and change.
	State = "/var/lib/rig"
)

// devices creates the device nodes that udev and the driver would create. They end with the boot,
// as those of the driver do.
func (h *Container) devices(ctx context.Context) error {
	if h.Profile == "" {
		return nil
	}
	select {
	case <-time.After(h.DevicesAfter):
	case <-ctx.Done():
		return fmt.Errorf("waiting for devices: %w", ctx.Err())
	}
	double, err := doubles()
	if err != nil {
		return err
	}
	if err := h.CopyIn(ctx, double, SMI); err != nil {
		return err
	}
	if _, err := h.Exec(ctx, "ln", "-sf", SMI, Scrub); err != nil {
		return err
	}
	out, err := h.Exec(ctx, SMI, "rig", "make", h.Profile, h.Hostname)
	if err != nil {
		return err
	}
	_, err = h.Exec(ctx, "sh", "-euc", makeDevices, "sh", fmt.Sprint(len(strings.Fields(out))))
	return err
}

// A kernel provides loop devices, but a container does not see them, so the script creates
// them.
const makeDevices = `
for i in $(seq 0 $(($1 - 1))); do mknod -m 666 /dev/nvidia$i c 195 $i; done
mknod -m 666 /dev/nvidiactl c 195 255
mknod -m 666 /dev/nvidia-uvm c 511 0
mknod -m 666 /dev/nvidia-uvm-tools c 511 1
mknod -m 660 /dev/loop-control c 10 237
for i in $(seq 0 63); do mknod -m 660 /dev/loop$i b 7 $i; done
[ -c /dev/fuse ] || mknod -m 666 /dev/fuse c 10 229
`

// GPUs returns the UUIDs of the container's simulated GPUs. GPU n has the device file /dev/nvidia<n>.
func (h *Container) GPUs(t testing.TB) []string {
	t.Helper()
	out, err := h.Exec(t.Context(), SMI, "rig", "uuids")
	must(t, err)
	return strings.Fields(out)
}

var built struct {
	sync.Mutex

	dir string
}

// doubles builds the doubles once per process.
func doubles() (string, error) {
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "gpuaas-rig-")
		if err != nil {
			return "", fmt.Errorf("building doubles: %w", err)
		}
		built.dir = dir
	}
	path := filepath.Join(built.dir, "double")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, Build(path, "github.com/gpuaas/gpuaas/e2e/rig/double")
}

// Build compiles a program of this module for a container.
func Build(path, pkg string, flags ...string) error {
	args := append(append([]string{"build", "-tags", "nomsgpack", "-ldflags=-s -w"}, flags...), "-o", path, pkg)
	cmd := exec.Command("go", args...) //nolint:gosec,noctx // the compiler
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}
