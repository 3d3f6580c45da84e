// Package process lists the processes of tenants. It reads no descriptors, and a bounded number of processes of
// each tenant.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/step"
)

// processesOfOne limits the processes that are read of one tenant. More of them are listed as one process
// without a name: a tenant that starts many does not slow down the reports of others.
const processesOfOne = 256

// processTable collects the processes of one inspection.
type processTable struct {
	*hostos.OS

	computes map[int][]string // pid → GPUs, by the driver's own list
	read     map[int]int      // uid → processes read
	found    []step.Process
}

// List lists the processes of tenants and the processes that compute on a GPU. The driver's list and the device
// rules of the slices say who uses a GPU. Descriptors are not read: processes of a tenant may share a table with
// as many as the kernel allows, and each of them shows the whole table. computes has the GPUs of a process by the
// driver's list.
func List(ctx context.Context, o *hostos.OS, computes map[int][]string) ([]step.Process, error) {
	t := &processTable{OS: o, computes: computes, read: map[int]int{}}
	members, err := t.members(ctx)
	if err != nil {
		return nil, err
	}
	err = t.eachProcess(ctx, func(pid int) { t.add(pid, members[pid]) })
	return t.found, err
}

// eachProcess reads /proc in parts, so that a fork bomb does not outlast ctx.
func (t *processTable) eachProcess(ctx context.Context, each func(pid int)) error {
	dir, err := os.Open(t.Path("/proc"))
	if err != nil {
		return fmt.Errorf("reading processes: %w", err)
	}
	defer func() { _ = dir.Close() }() // read only
	const some = 512
	for {
		names, err := dir.Readdirnames(some)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("reading processes: %w", err)
		}
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil {
				each(pid)
			}
		}
	}
}

// add adds a process. slice is the uid of the tenant's slice that it is in, or zero.
func (t *processTable) add(pid, slice int) {
	gpus := slices.Compact(slices.Sorted(slices.Values(t.computes[pid])))
	if slice != 0 && len(gpus) == 0 && t.isFull(slice) {
		t.more(pid, slice)
		return
	}
	uid, command, ok := t.process(pid)
	switch {
	case !ok || len(gpus) == 0 && !hostos.IsTenant(uid): // it has ended, or is of no interest
	case slice == 0 && len(gpus) == 0 && t.isFull(uid):
		t.more(pid, uid)
	case len(gpus) == 0:
		t.found = append(t.found, step.Process{PID: pid, UID: uid, Command: command})
	default:
		for _, gpu := range gpus {
			t.found = append(t.found, step.Process{PID: pid, UID: uid, GPU: gpu, Command: command})
		}
	}
}

// isFull counts a process of the uid, and reports whether it is beyond the limit.
func (t *processTable) isFull(uid int) bool {
	t.read[uid]++
	return t.read[uid] > processesOfOne
}

// more lists the first of the processes that are not read.
func (t *processTable) more(pid, uid int) {
	const unread = "and more"
	if !slices.ContainsFunc(t.found, func(p step.Process) bool { return p.UID == uid && p.Command == unread }) {
		t.found = append(t.found, step.Process{PID: pid, UID: uid, Command: unread})
	}
}

// process reads the owner of a process. One of several uids that is a tenant's counts.
func (t *processTable) process(pid int) (uid int, command string, ok bool) {
	text, err := t.Read("/proc/" + strconv.Itoa(pid) + "/status")
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
				if n, err := strconv.Atoi(field); err == nil && (uid < 0 || !hostos.IsTenant(uid) && hostos.IsTenant(n)) {
					uid = n
				}
			}
		}
	}
	return uid, command, uid >= 0
}
