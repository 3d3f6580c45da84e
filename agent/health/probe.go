package health

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaas/protocol"
)

// Probe reads one part of the node in a child process, because the read may hang forever. Targets are
// PCI addresses; the parent process knows the devices at them.
type Probe func(ctx context.Context, root string) ([]protocol.HealthReport, error)

// Probes lists the probes that a child can execute.
var Probes = map[string]Probe{
	"disk": disk, "memory": memory, "network": network, "clock": clockProbe,
}

// Limits of a file system: below, a tenant's home or our own journal fails soon.
const (
	fullPercent = 95
	fullInodes  = 97
)

// mounts are the file systems of the agent and its tenants.
var mounts = []string{"/", "/var", "/var/lib/gpuaas", "/home", "/tmp"}

func disk(_ context.Context, root string) (all []protocol.HealthReport, err error) {
	seen := map[string]bool{}
	for _, m := range mounts {
		var s syscall.Statfs_t
		if err := syscall.Statfs(filepath.Join(root, m), &s); err != nil {
			continue // not there on this node
		}
		id := fmt.Sprint(s.Fsid)
		if seen[id] {
			continue
		}
		seen[id] = true
		if f, wrong := diskHealth(m, s); wrong {
			all = append(all, f)
		}
	}
	if len(seen) == 0 {
		return nil, fmt.Errorf("no file system could be read")
	}
	all = append(all, failing(root)...)
	return orWell(all, "disk"), nil
}

func diskHealth(mount string, s syscall.Statfs_t) (protocol.HealthReport, bool) {
	const readOnly = 1 // ST_RDONLY
	switch {
	case s.Flags&readOnly != 0:
		return NewReport("disk", "", "disk_read_only", mount+" is read-only"), true
	case s.Blocks > 0 && 100-100*s.Bavail/s.Blocks >= fullPercent:
		return NewReport("disk", "", "disk_full", mount+" is nearly full"), true
	case s.Files > 0 && 100-100*s.Ffree/s.Files >= fullInodes:
		return NewReport("disk", "", "disk_full", mount+" has few file entries left"), true
	}
	return protocol.HealthReport{}, false
}

// failing reads the errors that NVMe disks and the block layer report without a tool.
func failing(root string) (all []protocol.HealthReport) {
	states, _ := filepath.Glob(filepath.Join(root, "/sys/class/nvme/nvme*/state"))
	for _, at := range states {
		if state := line(at); state != "" && state != "live" {
			all = append(all, NewReport("disk", "", "disk_failing", fmt.Sprintf("%s is %s", filepath.Base(filepath.Dir(at)), state)))
			break // one is enough, and each check is reported once
		}
	}
	return all
}

func orWell(all []protocol.HealthReport, source string) []protocol.HealthReport {
	kept := all[:0]
	for _, r := range all { // one report for each check; the first names its place
		if !slices.ContainsFunc(kept, func(o protocol.HealthReport) bool { return o.Check == r.Check && o.Target == r.Target }) {
			kept = append(kept, r)
		}
	}
	if len(kept) == 0 {
		return []protocol.HealthReport{Well(source, "")}
	}
	return kept
}

func line(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// manyCorrected exceeds the number of errors that a healthy module corrects between two boots.
const manyCorrected = 1000

// memory reads the error counters of the memory controllers (EDAC). A node without them has no
// report about memory, which is no fault.
func memory(_ context.Context, root string) (all []protocol.HealthReport, err error) {
	controllers, err := filepath.Glob(filepath.Join(root, "/sys/devices/system/edac/mc/mc*"))
	if err != nil {
		return nil, err
	}
	var corrected, lost int64
	for _, mc := range controllers {
		corrected += counter(filepath.Join(mc, "ce_count"))
		lost += counter(filepath.Join(mc, "ue_count"))
	}
	if lost > 0 {
		all = append(all, NewReport("memory", "", "memory_uncorrected", "the node memory has lost data"))
	}
	if corrected >= manyCorrected {
		all = append(all, NewReport("memory", "", "memory_corrected", "the node memory corrects many errors"))
	}
	return orWell(all, "memory"), nil
}

func counter(path string) int64 {
	n, _ := strconv.ParseInt(line(path), 10, 64)
	return n
}

// network checks the network cards on a bus that should be up.
func network(_ context.Context, root string) (all []protocol.HealthReport, err error) {
	cards, err := filepath.Glob(filepath.Join(root, "/sys/class/net/*/device"))
	if err != nil {
		return nil, err
	}
	slices.Sort(cards)
	var down []string
	for _, at := range cards {
		nic := filepath.Dir(at)
		const up = 1 // IFF_UP: an administrator has enabled it
		flags, err := strconv.ParseInt(line(filepath.Join(nic, "flags")), 0, 64)
		if err == nil && flags&up != 0 && line(filepath.Join(nic, "operstate")) == "down" {
			down = append(down, filepath.Base(nic))
		}
	}
	if len(down) > 0 {
		all = append(all, NewReport("network", "", "nic_down", strings.Join(down, ", ")+" has no link"))
	}
	return orWell(all, "network"), nil
}

// farOff is half of the minute by which certificates and tasks are dated back for clock skew.
const farOff = 30_000_000 // microseconds

// clockProbe checks whether a service synchronises the clock.
func clockProbe(ctx context.Context, root string) ([]protocol.HealthReport, error) {
	if _, err := os.Stat(filepath.Join(root, "/run/systemd/container")); err == nil {
		return orWell(nil, "clock"), nil // this node does not steer its clock
	}
	var t syscall.Timex
	state, err := syscall.Adjtimex(&t)
	if errors.Is(err, syscall.EPERM) {
		return queryTimedate(ctx)
	} else if err != nil {
		return nil, fmt.Errorf("asking for the clock's state: %w", err)
	}
	return clockHealth(state, t), nil
}

// queryTimedate calls another process for the state of the clock: the unit of the helper denies every
// call that could set the clock, and reading its state is one of them.
func queryTimedate(ctx context.Context) (all []protocol.HealthReport, err error) {
	out, err := exec.CommandContext(ctx, "/usr/bin/timedatectl", "show", "--property=NTPSynchronized", "--value").Output()
	if err != nil {
		return nil, fmt.Errorf("asking systemd for the clock's state: %w", err)
	}
	if strings.TrimSpace(string(out)) != "yes" {
		all = append(all, unsynchronised())
	}
	return orWell(all, "clock"), nil
}

func unsynchronised() protocol.HealthReport {
	return NewReport("clock", "", "clock_unsynchronised", "nothing synchronises the clock")
}

func clockHealth(state int, t syscall.Timex) (all []protocol.HealthReport) {
	const unsteered, timeError = 0x40, 5 // STA_UNSYNC, TIME_ERROR
	if state == timeError || t.Status&unsteered != 0 {
		all = append(all, unsynchronised())
	}
	if t.Maxerror > farOff && t.Status&unsteered == 0 {
		all = append(all, NewReport("clock", "", "clock_offset", "the clock may have an offset of 30 seconds"))
	}
	return orWell(all, "clock")
}
