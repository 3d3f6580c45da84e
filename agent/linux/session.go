package linux

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
)

// departingTenant is the tenant whose traces are removed. What is removed by owner is only
// ever removed for a uid of a tenant's.
type departingTenant struct {
	name string
	uid  int
}

func (t departingTenant) group() string { return filepath.Join(groups, "user.slice", SliceOf(t.uid)) }

// End implements hook.Sessions.
func (h *Host) End(ctx context.Context, name string, uid int) error {
	if err := tenant(name, uid); err != nil {
		return err
	}
	terminate := func(ctx context.Context) error {
		_, err := h.command(ctx, loginctl, "terminate-user", strconv.Itoa(uid))
		return err
	}
	t := departingTenant{name, uid}
	units := append(t.units(), fmt.Sprintf("user@%d.service", uid), fmt.Sprintf("user-runtime-dir@%d.service", uid))
	stop := func(ctx context.Context) error {
		_, err := h.command(ctx, systemctl, "stop", "--", SliceOf(uid), fmt.Sprintf("user-runtime-dir@%d.service", uid))
		// What was killed counts as failed, and systemd remembers it by the tenant's
		// uid. Units that it has forgotten already are no fault.
		for _, unit := range units {
			_, _ = h.command(ctx, systemctl, "reset-failed", "--", unit)
		}
		return err
	}
	return t.end(ctx, terminate, stop)
}

// units are what systemd runs in the tenant's slice.
func (t departingTenant) units() (names []string) {
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

// groups is where control groups of version 2 are mounted on a host of systemd.
const groups = "/sys/fs/cgroup"

// end ends everything of the tenant. terminate asks logind, which may be slow or
// wrong; what counts is that no process is left: neither in the slice, whose
// programs may run as root, nor of the uid, wherever it has moved to.
func (t departingTenant) end(ctx context.Context, terminate, stop func(context.Context) error) error {
	// What is killed must not be started again.
	if err := t.unstart(); err != nil {
		return err
	}
	_ = terminate(ctx)
	if err := t.killAll(ctx); err != nil {
		return err
	}
	// cron or at may have started the last thing while the first ones were killed.
	return errors.Join(stop(ctx), t.killAll(ctx), t.forgotten(ctx, terminate))
}

// forgotten waits until logind knows that the user is gone. It looks when it is asked
// to, or when a session ends, and not again when the last unit has failed instead of
// stopping. What it keeps is left to the scan.
func (t departingTenant) forgotten(ctx context.Context, terminate func(context.Context) error) error {
	for round := range 500 {
		if _, err := os.Stat(fmt.Sprintf("/run/systemd/users/%d", t.uid)); err != nil {
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

// unstart removes what would start something in the tenant's name.
func (t departingTenant) unstart() error {
	paths := []string{
		filepath.Join("/var/lib/systemd/linger", t.name),
		filepath.Join("/var/spool/cron/crontabs", t.name),
		filepath.Join("/var/spool/cron", t.name), // where others than Debian keep them
	}
	for _, dir := range []string{"/var/spool/cron/atjobs", "/var/spool/at"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // no at on this host
		}
		for _, e := range entries {
			if owner(filepath.Join(dir, e.Name())) == t.uid {
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

// killAll returns when two looks in a row have found nothing: a process that was
// forked while /proc was read is in the second.
func (t departingTenant) killAll(ctx context.Context) error {
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
// the runtime folder from in there: it is killed only where it takes too long.
func (t departingTenant) killSlice(round int) {
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
		_ = os.WriteFile(file, []byte("1"), 0) // gone meanwhile, or a survivor is found by who asks
	}
}

// kill ends processes. One by one a fork bomb outruns anybody, so one of the uid's
// own asks the kernel to end all of its others at one moment. It is a child,
// because whoever has a uid may be signalled by it.
func (t departingTenant) kill(ctx context.Context, pids []int) {
	all := exec.CommandContext(ctx, "/usr/bin/kill", "-KILL", "--", "-1")
	all.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(t.uid), Gid: uint32(t.uid)}} //nolint:gosec // a uid
	_ = all.Run()                                                                                                   // it fails where there was nobody; a survivor is found again
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// survivors names what outlived the deadline. In state D it waits for a driver or a
// disk, and nothing but the host's restart ends it.
func (t departingTenant) survivors() error {
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
	return fmt.Errorf("uid %d still has processes after the kill: %s", t.uid, strings.Join(found, "; "))
}

// processes lists those with the uid as any of theirs, whatever group they are in.
func (t departingTenant) processes() (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("reading processes: %w", err)
	}
	uid := strconv.Itoa(t.uid)
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

// populated says whether anything runs in the tenant's slice, also as another uid.
func (t departingTenant) populated() bool {
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
