package linux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/step"
)

// processes lists the processes of tenants and the processes that compute on a GPU. A tenant's
// process with an open device uses it, even if the driver does not list it. A daemon of the host OS
// may have all devices open, so that alone does not count.
func (h *Host) processes(cards []card) (found []step.Process, err error) {
	computes := map[int][]string{}
	for _, c := range cards {
		for _, pid := range c.processes {
			computes[pid] = append(computes[pid], c.UUID)
		}
	}
	entries, err := os.ReadDir(h.Path("/proc"))
	if err != nil {
		return nil, fmt.Errorf("reading processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		uid, command, ok := h.process(pid)
		if !ok {
			continue // it has ended
		}
		gpus := computes[pid]
		if uid >= hostos.MinUID && uid <= hostos.MaxUID {
			gpus = append(slices.Clone(gpus), h.onGPUs(pid, cards)...)
			slices.Sort(gpus)
			gpus = slices.Compact(gpus)
		} else if len(gpus) == 0 {
			continue
		}
		if len(gpus) == 0 {
			gpus = []string{""}
		}
		for _, gpu := range gpus {
			found = append(found, step.Process{PID: pid, UID: uid, GPU: gpu, Command: command})
		}
	}
	return found, nil
}

// process reads whose it is. A process may be several users': the first of them
// that is a tenant counts.
func (h *Host) process(pid int) (uid int, command string, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	text, err := h.Read(dir + "/status")
	if err != nil || len(text) == 0 {
		return 0, "", false
	}
	uid = -1
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 1 && f[0] == "Name:":
			command = strings.Join(f[1:], " ")
		case len(f) > 1 && f[0] == "State:" && f[1] == "Z":
			return 0, "", false // dead: only its parent has not heard
		case len(f) > 4 && f[0] == "Uid:":
			for _, field := range f[1:5] { // real, effective, saved, of the file system
				if n, err := strconv.Atoi(field); err == nil && (uid < 0 || uid < hostos.MinUID && n >= hostos.MinUID && n <= hostos.MaxUID) {
					uid = n
				}
			}
		}
	}
	return uid, command, uid >= 0
}

// onGPUs lists the GPUs whose device file the process has open.
func (h *Host) onGPUs(pid int, cards []card) (uuids []string) {
	dir := h.Path("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil // it has ended meanwhile
	}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		for _, c := range cards {
			if target == c.file() {
				uuids = append(uuids, c.UUID)
			}
		}
	}
	return uuids
}
