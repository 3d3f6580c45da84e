package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// running is a booted container.
type running struct {
	nspawn *exec.Cmd
	ended  chan struct{}
	pid    int // of the container's first process
}

// launch runs in its own namespaces. The overlay and all processes end with this script, whichever
// process is killed. Without it the container of a killed nspawn continues.
const launch = `
for group in $GROUPS_OF_HOST; do echo $$ >"$group/cgroup.procs" || exit 1; done
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root" || exit 1
shift 2
systemd-nspawn "$@"
exit $?`

// start starts the container. Three of its options are required for device control, and systemd
// ignores DevicePolicy= without an error if one is missing: the unified hierarchy, the bpf system
// call, and all capabilities.
func (h *Container) start() (*running, error) {
	console, err := os.OpenFile(filepath.Join(h.slot.dir, "console.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening console: %w", err)
	}
	defer func() { _ = console.Close() }()
	for _, group := range h.slot.groups() {
		if err := os.MkdirAll(group, 0o755); err != nil { //nolint:gosec // as systemd makes them
			return nil, fmt.Errorf("making control group: %w", err)
		}
	}
	//nolint:gosec,noctx // of this package's own choice; lives as long as the container
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount", "--propagation", "private", "--mount-proc", "--",
		"sh", "-c", launch, "launch", h.root, h.slot.dir,
		"--quiet", "--directory="+filepath.Join(h.slot.dir, "root"), "--machine="+h.slot.name(), "--hostname="+h.Hostname,
		"--register=no", "--keep-unit", "--network-veth", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
		"--system-call-filter=bpf add_key keyctl request_key", "--capability=all", "--console=read-only", "--setenv=SYSTEMD_COLORS=0", "--boot")
	cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1", "GROUPS_OF_HOST="+strings.Join(h.slot.groups(), " "))
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	r := &running{nspawn: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the parent-death signal belongs to the thread
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(r.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting container: %w", err)
	}
	return r, nil
}

func (r *running) kill() {
	if r.pid > 0 {
		_ = syscall.Kill(r.pid, syscall.SIGKILL)
	}
	select { // nspawn removes the network when the container has ended
	case <-r.ended:
	case <-time.After(5 * time.Second):
		_ = r.nspawn.Process.Kill()
		<-r.ended
	}
}

// again is the time between two checks of a booting container.
const again = 30 * time.Millisecond

func until(ctx context.Context, r *running, ok func() error) error {
	for {
		err := ok()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-r.ended:
			return errors.New("the container ended")
		case <-time.After(again):
		}
	}
}

var errNotYet = errors.New("it has not started")

// leader finds the first process of the container, below unshare, the script and nspawn.
func (h *Container) leader(ctx context.Context) error {
	r := h.run
	return until(ctx, r, func() error {
		list := []int{r.nspawn.Process.Pid}
		for range 3 {
			list = children(list)
		}
		for _, pid := range list {
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) == "systemd\n" {
				r.pid = pid
				return nil
			}
		}
		return errNotYet
	})
}

func children(of []int) (list []int) {
	for _, parent := range of {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", parent))
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				list = append(list, pid)
			}
		}
	}
	return list
}

// network sets the addresses of both ends.
func (h *Container) network(ctx context.Context) error {
	if err := outside(ctx, "ip", "address", "replace", h.Gateway()+"/30", "dev", h.Interface()); err != nil {
		return err
	}
	if err := outside(ctx, "ip", "link", "set", h.Interface(), "up"); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "address", "replace", h.Addr() + "/30", "dev", "host0"},
		{"ip", "link", "set", "host0", "up"},
		{"ip", "route", "replace", "default", "via", h.Gateway()},
	} {
		if _, err := h.Exec(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// systemReady waits until systemd has started everything. A unit that cannot work in a container may
// fail; sshd may not.
func (h *Container) systemReady(ctx context.Context) error {
	return until(ctx, h.run, func() error {
		out, err := h.Exec(ctx, "systemctl", "is-system-running")
		switch strings.TrimSpace(out) {
		case "running":
			return nil
		case "degraded":
			_, err = h.Exec(ctx, "systemctl", "is-active", "ssh.service", "dbus.service", "systemd-logind.service")
		}
		return err
	})
}
