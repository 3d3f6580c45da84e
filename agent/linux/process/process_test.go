package process_test

import (
	"bufio"
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
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/process"
	"github.com/gpuaas/gpuaas/agent/step"
)

const hostileUID = 2000000123

// hostile starts this program as a tenant with descriptors that processes share, and returns when all are
// there.
func hostile(t *testing.T, processes, descriptors int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root starts a process as a tenant")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=TestHostileProcess")
	cmd.Env = []string{"GPUAAS_HOSTILE=" + fmt.Sprint(processes, " ", descriptors)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
}

// TestHostileProcess is the program of hostile: it opens descriptors, becomes a tenant, and clones itself
// with its table of descriptors.
func TestHostileProcess(t *testing.T) { //nolint:paralleltest // a program of its own
	var processes, descriptors int
	if _, err := fmt.Sscan(os.Getenv("GPUAAS_HOSTILE"), &processes, &descriptors); err != nil {
		t.Skip("the program of another test")
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	const others = 100 // that this program has itself
	descriptors = min(descriptors, int(limit.Max)-others)
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	first, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	for range descriptors {
		if err == nil {
			_, err = unix.Dup(first)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setreuid(hostileUID, hostileUID); err != nil {
		t.Fatal(err)
	}
	for range processes - 1 {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_FILES|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			t.Fatal(errno)
		}
		for pid == 0 { // no Go code runs in this process
			_, _, _ = unix.RawSyscall(unix.SYS_PPOLL, 0, 0, 0)
		}
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
}

// INV-72. Threat: processes that share a table of many descriptors make the inspection exceed its
// limit, and the node's reports become stale for all its tenants. 64 processes show up to 6.4 million descriptors
// here.
func TestDescriptorsDoNotSlowDownTheInspection(t *testing.T) { //nolint:paralleltest // it measures
	h := &hostos.OS{}
	inspect := func() (best time.Duration, found []step.Process) {
		best = time.Hour
		for range 3 {
			began := time.Now()
			table, err := process.List(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			best, found = min(best, time.Since(began)), table.Using(nil)
		}
		return best, found
	}
	before, _ := inspect()
	const processes = 64
	hostile(t, processes, 100000)
	after, found := inspect()
	of := slices.DeleteFunc(found, func(p step.Process) bool { return p.UID != hostileUID })
	if len(of) != processes {
		t.Errorf("%d processes are found", len(of))
	}
	const noise = 100 * time.Millisecond
	if after > before*3/2+noise {
		t.Errorf("an inspection took %s, and %s before", after, before)
	}
	t.Logf("%s with, %s without", after, before)
}

// Threat: a fork bomb. Processes in the tenant's slice beyond a limit are neither read nor forgotten.
func TestManyProcessesOfOneTenant(t *testing.T) {
	t.Parallel()
	h := &hostos.OS{Root: t.TempDir()}
	const uid, all = 200001, 5000
	var procs strings.Builder
	for pid := range all {
		fmt.Fprintln(&procs, 1000+pid)
		if pid < 300 { // the status of the others is not read
			write(t, h, "/proc/"+strconv.Itoa(1000+pid)+"/status", "Name:\ta; b, c: d\nUid:\t200001\t200001\t200001\t200001\n")
		} else if err := os.Mkdir(h.Path("/proc", strconv.Itoa(1000+pid)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, h, "/proc/7/status", "Name:\tsshd\nUid:\t0\t0\t0\t0\n")
	write(t, h, "/proc/8/status", "Name:\tescaped\nUid:\t200002\t0\t0\t0\n")
	write(t, h, "/sys/fs/cgroup/user.slice/user-200001.slice/session-1.scope/cgroup.procs", procs.String())
	write(t, h, "/sys/fs/cgroup/user.slice/user-1000.slice/cgroup.procs", "7\n")
	write(t, h, "/proc/11/status", "Name:\tsetuid\nUid:\t0\t200003\t0\t0\n")
	write(t, h, "/proc/9/status", "Name:\tserver\nUid:\t0\t0\t0\t0\n")
	table, err := process.List(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	found := table.Using(map[int][]string{8: {"GPU-2", "GPU-1"}, 9: {"GPU-1"}, 10: {"GPU-1"}})
	if len(found) > 300 {
		t.Fatalf("%d processes", len(found))
	}
	using := []string{}
	for _, p := range found {
		if p.GPU != "" {
			using = append(using, fmt.Sprint(p.PID, " ", p.UID, " ", p.GPU, " ", p.Command))
		}
	}
	if got, want := strings.Join(using, ", "), "8 200002 GPU-1 escaped, 8 200002 GPU-2 escaped, 9 0 GPU-1 server"; got != want {
		t.Errorf("use GPUs: %s; want %s", got, want)
	}
	if !slices.ContainsFunc(found, func(p step.Process) bool { return p.UID == uid && p.Command == "and more" }) {
		t.Error("the processes that were not read are forgotten")
	}
	if !slices.ContainsFunc(found, func(p step.Process) bool { return p.UID == 200002 && p.PID == 8 }) {
		t.Error("a process outside of the slices is not found")
	}
	if !slices.ContainsFunc(found, func(p step.Process) bool { return p.UID == 200003 && p.PID == 11 }) {
		t.Error("a process of root with the effective uid of a tenant is not found")
	}
}

// Threat: an inspection that was given up goes on and slows down the next one.
func TestAnInspectionEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := process.List(ctx, &hostos.OS{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func write(t *testing.T, h *hostos.OS, name, text string) {
	t.Helper()
	path := h.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
