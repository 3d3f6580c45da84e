package sweep

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
	"time"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// Tenant is the tenant whose traces are removed. The caller has checked that Name and UID are a tenant's:
// files and processes are removed by their owner.
type Tenant struct {
	Name string
	UID  int
	// Skipped receives the uid of another tenant whose folders exceed the limits of a sweep. It may be nil.
	Skipped func(uid int)
}

func (t Tenant) skipped(uid int) {
	if t.Skipped != nil {
		t.Skipped(uid)
	}
}

func (t Tenant) group() string { return filepath.Join(groups, "user.slice", hostos.SliceOf(t.UID)) }

// Units lists the units that systemd runs in the slice of the tenant.
func (t Tenant) Units() (names []string) {
	entries, err := os.ReadDir(t.group())
	if err != nil {
		return nil // no slice, no units
	}
	for _, e := range entries {
		if e.IsDir() && (strings.HasSuffix(e.Name(), ".service") || strings.HasSuffix(e.Name(), ".scope")) {
			names = append(names, e.Name())
		}
	}
	return names
}

// groups is the mount point of control groups (version 2).
const groups = "/sys/fs/cgroup"

// End ends all processes of the tenant. terminate calls logind, which may be slow or wrong, so End
// also checks the result: no process may be left in the slice, whose programs may run as root, or
// with the uid, in any slice.
func (t Tenant) End(ctx context.Context, terminate, stop func(context.Context) error) error {
	// What is killed must not be started again.
	if err := t.disableAutostart(); err != nil {
		return err
	}
	_ = terminate(ctx)
	if err := t.killAll(ctx); err != nil {
		return err
	}
	// A job of cron or at may have started a process while the others were killed, so End kills
	// again.
	return errors.Join(stop(ctx), t.killAll(ctx), t.forgotten(ctx, terminate))
}

// EndSlice ends the processes in the tenant's slice, and none of the uid elsewhere: rclone still uploads what they have
// written. It returns when ctx ends, at the latest, because a process that waits for a mount may not end before the mount.
func (t Tenant) EndSlice(ctx context.Context) {
	_ = t.disableAutostart() // End returns the error
	for t.populated() && ctx.Err() == nil {
		t.killSlice(0)
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// forgotten waits until logind has removed the user. logind checks that on a request or when a
// session ends, but not when the last unit fails instead of stopping. The leftover scan reports the
// rest.
func (t Tenant) forgotten(ctx context.Context, terminate func(context.Context) error) error {
	for round := range 500 {
		if _, err := os.Stat(fmt.Sprintf("/run/systemd/users/%d", t.UID)); err != nil {
			return nil //nolint:nilerr // it is not there
		}
		if round%10 == 0 {
			_ = terminate(ctx)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// disableAutostart removes everything that would start a process in the tenant's name.
func (t Tenant) disableAutostart() error {
	paths := []string{
		filepath.Join("/var/lib/systemd/linger", t.Name),
		filepath.Join("/var/spool/cron/crontabs", t.Name),
		filepath.Join("/var/spool/cron", t.Name), // the path on other distributions than Debian
	}
	for _, dir := range []string{"/var/spool/cron/atjobs", "/var/spool/at"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // no at on this host OS
		}
		for _, e := range entries {
			if owner(filepath.Join(dir, e.Name())) == t.UID {
				paths = append(paths, filepath.Join(dir, e.Name()))
			}
		}
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return fmt.Errorf("removing units that start processes of the tenant: %w", err)
		}
	}
	return nil
}

// killAll returns after two consecutive reads without a process. A process that forked during the
// first read of /proc is in the second.
func (t Tenant) killAll(ctx context.Context) error {
	for calm, round := 0, 0; calm < 2; round++ {
		left, err := t.processes()
		if err != nil {
			return err
		}
		t.killSlice(round)
		calm++
		if len(left) > 0 || t.populated() {
			calm = 0
			t.kill(ctx, left)
		}
		select {
		case <-ctx.Done():
			return t.survivors()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// killSlice ends what is in the tenant's slice, also as another uid. systemd removes
// the runtime folder from in there: it is killed only if it does not end in time.
func (t Tenant) killSlice(round int) {
	const patient = 100 // rounds, of 20 ms and more
	dirs, err := filepath.Glob(t.group() + "/*/cgroup.kill")
	if err != nil {
		return
	}
	if round >= patient {
		dirs = append(dirs, filepath.Join(t.group(), "cgroup.kill"))
	}
	for _, file := range dirs {
		if round < patient && strings.HasPrefix(filepath.Base(filepath.Dir(file)), "user-runtime-dir@") {
			continue
		}
		_ = os.WriteFile(file, []byte("1"), 0) // gone meanwhile; the next read finds a survivor
	}
}

// kill ends processes. A fork bomb is faster than signals to single processes, so a child with the uid
// makes the kernel end all other processes of the uid at one moment. The agent itself cannot do this,
// because processes of the uid could signal it.
func (t Tenant) kill(ctx context.Context, pids []int) {
	all := exec.CommandContext(ctx, "/usr/bin/kill", "-KILL", "--", "-1")
	all.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(t.UID), Gid: uint32(t.UID)}} //nolint:gosec // a uid
	_ = all.Run()                                                                                                   // it fails without processes; killAll finds a survivor again
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// survivors returns an error with the processes that outlived the deadline. A process in state D
// waits for a driver or a disk, and only a restart of the host OS ends it.
func (t Tenant) survivors() error {
	left, err := t.processes()
	if err != nil {
		return err
	}
	var found []string
	for _, pid := range left {
		found = append(found, fmt.Sprintf("process %d (%s) in state %s", pid, comm(pid), status(pid, "State:")))
	}
	if len(found) == 0 {
		found = append(found, "the control group "+t.group()+" is not empty")
	}
	return fmt.Errorf("uid %d still has processes after the kill: %s", t.UID, strings.Join(found, "; "))
}

// processes lists those with the uid as any of theirs, whatever group they are in.
func (t Tenant) processes() (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("reading processes: %w", err)
	}
	uid := strconv.Itoa(t.UID)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if slices.Contains(strings.Fields(status(pid, "Uid:")), uid) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// populated reports whether a process runs in the tenant's slice, with any uid.
func (t Tenant) populated() bool {
	text, err := os.ReadFile(filepath.Join(t.group(), "cgroup.events"))
	return err == nil && strings.Contains(string(text), "populated 1")
}

// status is a field of a process, or empty when the process has gone.
func status(pid int, field string) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, field); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

func comm(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "gone"
	}
	return strings.TrimSpace(string(text))
}

// owner is a file's, or -1.
func owner(path string) int {
	info, err := os.Lstat(path)
	if err != nil {
		return -1
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
