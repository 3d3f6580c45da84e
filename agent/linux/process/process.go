// Package process lists the processes of tenants. It reads no descriptors, and a bounded number of processes of
// each tenant.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
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

// Table has the processes of tenants at one time.
type Table struct {
	os    *hostos.OS
	read  map[int]int // uid → processes read
	found []step.Process
	more  map[int]step.Process // uid → the first process that was not read
}

// List lists the processes of tenants. Descriptors are not read: processes of a tenant may share a table with as many
// as the kernel allows, and each of them shows the whole table.
func List(ctx context.Context, o *hostos.OS) (*Table, error) {
	t := &Table{os: o, read: map[int]int{}, more: map[int]step.Process{}}
	members, err := t.members(ctx)
	if err != nil {
		return nil, err
	}
	return t, t.eachProcess(ctx, func(pid int) { t.add(pid, members[pid]) })
}

// Using returns the processes with their GPUs. computes has the GPUs of a process by the driver's own list: this list
// and the device rules of the slices decide who uses a GPU. A process of the list that is not in the table is read,
// of any owner.
func (t *Table) Using(computes map[int][]string) []step.Process {
	all := slices.Clone(t.found)
	for pid := range computes {
		if slices.ContainsFunc(t.found, func(p step.Process) bool { return p.PID == pid }) {
			continue
		}
		if uid, command, ok := t.process(pid); ok {
			all = append(all, step.Process{PID: pid, UID: uid, Command: command})
		}
	}
	var using []step.Process
	for _, p := range all {
		gpus := slices.Compact(slices.Sorted(slices.Values(computes[p.PID])))
		if len(gpus) == 0 {
			using = append(using, p)
		}
		for _, p.GPU = range gpus {
			using = append(using, p)
		}
	}
	using = slices.AppendSeq(using, maps.Values(t.more))
	slices.SortFunc(using, func(a, b step.Process) int { return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.GPU, b.GPU)) })
	return using
}

// eachProcess reads /proc in parts, so that a fork bomb does not outlast ctx.
func (t *Table) eachProcess(ctx context.Context, each func(pid int)) error {
	dir, err := os.Open(t.os.Path("/proc"))
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

// add adds a process of a tenant. slice is the uid of the tenant's slice that it is in, or zero.
func (t *Table) add(pid, slice int) {
	if slice != 0 && t.isFull(pid, slice) {
		return
	}
	uid, command, ok := t.process(pid)
	if !ok || !hostos.IsTenant(uid) || slice == 0 && t.isFull(pid, uid) {
		return // it has ended, is of no interest, or is one of too many
	}
	t.found = append(t.found, step.Process{PID: pid, UID: uid, Command: command})
}

// isFull counts a process of the uid, and reports whether it is beyond the limit. The first of those represents the
// others.
func (t *Table) isFull(pid, uid int) bool {
	t.read[uid]++
	if t.read[uid] == processesOfOne+1 {
		t.more[uid] = step.Process{PID: pid, UID: uid, Command: "and more"}
	}
	return t.read[uid] > processesOfOne
}

// process reads the owner of a process. One of several uids that is a tenant's counts. The lines of the kernel after the
// uids, most of the file, are not parsed.
func (t *Table) process(pid int) (uid int, command string, ok bool) {
	text, err := t.os.Read("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil || len(text) == 0 {
		return 0, "", false
	}
	for line := range strings.Lines(string(text)) {
		field, value, _ := strings.Cut(line, ":")
		switch field {
		case "Name":
			command = strings.Join(strings.Fields(value), " ")
		case "State":
			if strings.HasPrefix(strings.TrimSpace(value), "Z") {
				return 0, "", false // dead: only its parent has not heard
			}
		case "Uid":
			uid, ok = owner(strings.Fields(value))
			return uid, command, ok
		}
	}
	return 0, command, false
}

// owner returns the uid of a process by its real, effective, saved and file system uids.
func owner(uids []string) (uid int, ok bool) {
	for _, field := range uids[:min(len(uids), 4)] {
		if n, err := strconv.Atoi(field); err == nil && (!ok || !hostos.IsTenant(uid) && hostos.IsTenant(n)) {
			uid, ok = n, true
		}
	}
	return uid, ok
}
