package linux

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// cleanFile lists the GPUs whose memory was overwritten since a process could last write to it. A GPU
// that is not in the file is dirty, also if it was never scrubbed.
const cleanFile = StateDir + "/clean.json"

func (h *Host) clean() (map[string]bool, error) {
	text, err := h.Read(cleanFile)
	if err != nil || len(text) == 0 {
		return map[string]bool{}, err
	}
	var uuids []string
	if err := json.Unmarshal(text, &uuids); err != nil {
		// A file that cannot be read makes every GPU dirty, which is always safe.
		return map[string]bool{}, nil //nolint:nilerr // see above
	}
	clean := map[string]bool{}
	for _, uuid := range uuids {
		clean[uuid] = true
	}
	return clean, nil
}

// setClean returns after the state is on disk. The caller must have locked h.shared.
func (h *Host) setClean(is bool, uuids ...string) error {
	if err := h.Folder(StateDir, hostos.OwnMode); err != nil {
		return err
	}
	clean, err := h.clean()
	if err != nil {
		return fmt.Errorf("reading which GPUs are clean: %w", err)
	}
	for _, uuid := range uuids {
		delete(clean, uuid)
		if is {
			clean[uuid] = true
		}
	}
	text, err := json.Marshal(slices.Sorted(maps.Keys(clean)))
	if err != nil {
		return err
	}
	_, err = h.Put(cleanFile, text, 0o600, 0)
	return err
}

// Baseline implements step.Devices.
func (h *Host) Baseline(ctx context.Context, uuid string) error {
	c, err := h.cardOf(ctx, uuid)
	if err != nil {
		return err
	}
	defer h.changed()
	for _, args := range [][]string{{"-pm", "1"}, {"-c", "DEFAULT"}} {
		if _, err := h.smi(ctx, append([]string{"-i", c.UUID}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// Kill implements step.Devices.
func (h *Host) Kill(_ context.Context, pid int) error {
	// A wrong process id must not end the host OS or the agent.
	if pid <= 1 || pid == unix.Getpid() {
		return fmt.Errorf("process %d is not killed", pid)
	}
	defer h.changed()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

var errNoScrubber = errors.New("no program overwrites GPU memory: name a program as scrub in agent.yaml")

// Scrub implements step.Devices. It fails for a device that is in use: the data of the process would
// stay. The GPU counts as clean only after the program has succeeded, so a crash leaves it dirty.
func (h *Host) Scrub(ctx context.Context, uuid string) error {
	h.changed()
	c, err := h.cardOf(ctx, uuid)
	program, args := h.Scrubber, []string{c.UUID}
	if program == "" {
		program, args = h.Agent, []string{"scrub", c.UUID}
	}
	switch {
	case err != nil:
		return err
	case len(c.processes) > 0:
		return fmt.Errorf("GPU %s is in use by process %d", uuid, c.processes[0])
	case program == "":
		return errNoScrubber
	case !filepath.IsAbs(program):
		return fmt.Errorf("%s is not an absolute path", program)
	}
	if _, err := h.Start(ctx, program, nil, args...); err != nil {
		return fmt.Errorf("overwriting the memory of %s: %w", c.UUID, err)
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	return h.setClean(true, c.UUID)
}

// deviceFiles lists the files that a tenant needs in addition to its own GPUs.
func deviceFiles() []string {
	return []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}
}

// capFiles returns the capability files of the MIG instances on a GPU. A process that may open one may use the
// instance, so the slice opens only those of the tenant's own GPUs, read-only.
func (h *Host) capFiles(minor int) (files []string) {
	const caps = "/proc/driver/nvidia/capabilities"
	access, err := filepath.Glob(h.Path(caps, "gpu"+strconv.Itoa(minor), "mig", "gi*", "access"))
	if err != nil {
		return nil
	}
	more, err := filepath.Glob(h.Path(caps, "gpu"+strconv.Itoa(minor), "mig", "gi*", "ci*", "access"))
	if err != nil {
		return nil
	}
	for _, file := range append(access, more...) {
		var n int
		if relative, err := filepath.Rel(h.Path("/"), file); err == nil {
			if _, err := fmt.Sscanf(h.Text("/"+relative), "DeviceFileMinor: %d", &n); err == nil {
				files = append(files, "/dev/nvidia-caps/nvidia-cap"+strconv.Itoa(n))
			}
		}
	}
	slices.Sort(files)
	return files
}
