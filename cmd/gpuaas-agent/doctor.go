package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/agent"
	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/mount"
	"github.com/gpuaas/gpuaas/internal/clock"
)

// verdict of one check.
type verdict string

const (
	ok   verdict = "ok"
	warn verdict = "warn"
	fail verdict = "fail"
)

// finding is the result of a failed check: the problem, its consequence, and the remedy.
type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Why     string  `json:"why,omitempty"`
	Do      string  `json:"do,omitempty"`
}

// check is one check of the host OS. An empty result means success.
type check struct {
	name   string
	bad    verdict // what it is called when it is not fine
	do     string
	run    func(context.Context) (why string)
	before bool // also checked before anything is installed
}

// checks returns the checks of a future node.
func checks(socket string) []check {
	return []check{
		{"root", fail, "run it as root", asRoot, true},
		{"systemd", fail, "a node needs systemd 252 or newer (Debian 12)", systemdRuns, true},
		{"cgroup v2", fail, "boot with systemd.unified_cgroup_hierarchy=1", cgroup2, true},
		{"tools", fail, "apt-get install passwd e2fsprogs nftables openssh-server systemd", toolsThere, true},
		{"sshd", fail, "set UsePAM yes in /etc/ssh/sshd_config, and retain its Include of sshd_config.d", sshdPAM, true},
		{"pam_systemd", fail, "apt-get install libpam-systemd, then pam-auth-update --enable systemd", pamSystemd, true},
		{"device control", fail, "the kernel must load BPF programs of type cgroup_device: CONFIG_CGROUP_BPF, and in a container the bpf system call", deviceControl, true},
		{"clock", warn, "apt-get install systemd-timesyncd: tasks expire in minutes", clockRuns, true},
		{"disk", warn, "free at least 1 GiB below /var/lib/gpuaas", diskFree, true},
		{"mounts", warn, "apt-get install rclone fuse3; without them no allocation with mounts of stored objects is placed on this node", mountsThere, true},
		{"nvidia-smi", warn, "install NVIDIA's driver; without it the node has no GPU to sell", smiThere, true},
		{"agent user", fail, "run gpuaas-agent install", func(context.Context) string { _, _, err := agentUser(); return says(err) }, false},
		{"units", fail, "run gpuaas-agent install, then systemctl status gpuaas-agent gpuaas-agent-helper", unitsActive, false},
		{"agent", fail, "see gpuaas-agent status", func(ctx context.Context) string { return agentWell(ctx, socket) }, false},
	}
}

// examine runs all checks, also after one has failed.
func examine(ctx context.Context, list []check) (found []finding, failed int) {
	for _, c := range list {
		f := finding{Check: c.name, Verdict: ok}
		if why := c.run(ctx); why != "" {
			f.Verdict, f.Why, f.Do = c.bad, why, c.do
		}
		if f.Verdict == fail {
			failed++
		}
		found = append(found, f)
	}
	return found, failed
}

func doctor(ctx context.Context, p process) error {
	asJSON, socket, err := p.output()
	if err != nil {
		return err
	}
	found, failed := examine(ctx, checks(socket))
	if asJSON {
		err = printJSON(p.out, found)
	} else {
		writeFindings(p.out, found)
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d checks failed", failed, len(found)))
	}
	return err
}

func writeFindings(w io.Writer, found []finding) {
	for _, f := range found {
		fmt.Fprintf(w, "%-5s %s\n", f.Verdict, f.Check)
		if f.Why != "" {
			fmt.Fprintf(w, "      %s\n      → %s\n", f.Why, f.Do)
		}
	}
}

func says(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func asRoot(context.Context) string {
	if os.Geteuid() != 0 {
		return "most checks need root"
	}
	return ""
}

const oldestSystemd = 252

func systemdRuns(ctx context.Context) string {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return "systemd is not the init system of this node"
	}
	out, err := child(ctx, "/usr/bin/systemctl", "--version")
	if err != nil {
		return err.Error()
	}
	words := strings.Fields(string(out))
	if len(words) < 2 {
		return "systemctl --version prints nothing"
	}
	if n, err := strconv.Atoi(words[1]); err != nil || n < oldestSystemd {
		return "systemd is version " + words[1]
	}
	return ""
}

func cgroup2(context.Context) string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		return "control groups are not version 2"
	}
	return ""
}

func toolsThere(context.Context) string {
	var missing []string
	for _, path := range hostos.Tools() {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, path)
		}
	}
	if len(missing) > 0 {
		return "not here: " + strings.Join(missing, ", ")
	}
	return ""
}

func sshdPAM(ctx context.Context) string {
	out, err := child(ctx, "/usr/sbin/sshd", "-T", "-C", "user=root,host=localhost,addr=127.0.0.1")
	if err != nil {
		return err.Error()
	}
	if !bytes.Contains(bytes.ToLower(out), []byte("\nusepam yes\n")) {
		return "sshd does not use PAM, so a session would not get into its tenant's slice"
	}
	text, err := os.ReadFile("/etc/ssh/sshd_config")
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && strings.EqualFold(words[0], "include") && strings.HasPrefix(words[1], "/etc/ssh/sshd_config.d/") {
			return ""
		}
	}
	return "sshd_config does not include /etc/ssh/sshd_config.d/*.conf"
}

func pamSystemd(context.Context) string {
	modules, err := filepath.Glob("/lib/*/security/pam_systemd.so")
	if err != nil || len(modules) == 0 {
		return "pam_systemd is not installed, so a session would stay in ssh.service"
	}
	files, err := filepath.Glob("/etc/pam.d/*")
	if err != nil {
		return err.Error()
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && filepath.Base(file) == "common-session" && bytes.Contains(text, []byte("pam_systemd.so")) {
			return ""
		}
	}
	return "/etc/pam.d/common-session does not name pam_systemd.so"
}

// deviceCommand is the hidden child that tries to open a device.
const deviceCommand = "open-device"

// deviceControl opens a device that the unit does not allow, which must fail. A kernel that cannot
// load BPF programs ignores DevicePolicy= without an error.
func deviceControl(ctx context.Context) string {
	self, err := os.Executable()
	if err != nil {
		return err.Error()
	}
	dir, err := os.MkdirTemp("/dev", "gpuaas-doctor-") // elsewhere a mount may be nodev
	if err != nil {
		return err.Error()
	}
	defer func() { _ = os.RemoveAll(dir) }()
	const nvidiaMajor, unusedMinor = 195, 250
	node := filepath.Join(dir, "device")
	if err := syscall.Mknod(node, syscall.S_IFCHR|0o600, nvidiaMajor<<8|unusedMinor); err != nil {
		return fmt.Sprintf("creating a test device: %v", err)
	}
	out, err := child(ctx, "/usr/bin/systemd-run", "--quiet", "--pipe", "--wait", "--collect", "-p", "DevicePolicy=closed", self, deviceCommand, node)
	if err != nil {
		return err.Error()
	}
	if got := strings.TrimSpace(string(out)); got != syscall.EPERM.Error() {
		return "a device that is not allowed is accessible: " + got
	}
	return ""
}

// openDevice returns the result of opening a device.
func openDevice(_ context.Context, p process) error {
	if len(p.args) != 1 {
		return &usageError{errors.New("want one path")}
	}
	f, err := os.OpenFile(p.args[0], os.O_RDWR, 0)
	if err == nil {
		_ = f.Close()
		_, err = fmt.Fprintln(p.out, "opened")
		return err
	}
	if errno, is := errors.AsType[syscall.Errno](err); is {
		err = errno
	}
	_, err = fmt.Fprintln(p.out, err)
	return err
}

func clockRuns(context.Context) string {
	var t syscall.Timex
	state, err := syscall.Adjtimex(&t)
	const unsynchronised = 5 // TIME_ERROR
	if err != nil {
		return err.Error()
	}
	if state == unsynchronised {
		return "the kernel reports that the clock is not synchronised"
	}
	return ""
}

func diskFree(context.Context) string {
	dir := agent.DefaultStateDir
	if _, err := os.Stat(dir); err != nil {
		dir = "/var/lib"
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return err.Error()
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < 1<<30 { //nolint:gosec // a block size is positive
		return fmt.Sprintf("%d MiB are free in %s", free>>20, dir)
	}
	return ""
}

func mountsThere(ctx context.Context) string {
	if s := (&mount.Support{}).Of(ctx, &hostos.OS{}); !s.Supported {
		return "this node has no " + s.Missing
	}
	return ""
}

func smiThere(context.Context) string {
	for _, path := range []string{"/usr/bin/nvidia-smi", "/usr/local/bin/nvidia-smi"} {
		if _, err := os.Stat(path); err == nil {
			return ""
		}
	}
	return "nvidia-smi is not installed"
}

func unitsActive(ctx context.Context) string {
	for _, unit := range units {
		if out, err := child(ctx, "/usr/bin/systemctl", "is-active", unit); err != nil {
			return unit + " is " + strings.TrimSpace(string(out))
		}
	}
	return ""
}

func agentWell(ctx context.Context, socket string) string {
	var st agent.Status
	if err := get(ctx, socket, agent.PathStatus, &st); err != nil {
		return err.Error()
	}
	if wrong := writeStatus(io.Discard, st, clock.Clock{}.Now()); len(wrong) > 0 {
		return wrong[0]
	}
	return ""
}

const childWithin = 30 * time.Second

// child runs a program of a constant path and returns what it printed.
func child(ctx context.Context, path string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, childWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // constant paths
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0"}
	var says bytes.Buffer
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		line, _ := bufio.NewReader(&says).ReadString('\n')
		return out, fmt.Errorf("%s: %w: %s", path, err, strings.TrimSpace(line))
	}
	return out, nil
}
