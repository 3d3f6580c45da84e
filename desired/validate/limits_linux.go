package validate

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dataSlack is the margin between our limit and the kernel's. Go maps its heap in pieces of 64 MiB.
// Without space for one more piece the child would die before it can report the exceeded limit.
const dataSlack = 128 << 20

// childPriority gives a child about a third of a core that others want as well.
const childPriority = 5

// restrict sets the kernel's limits. RLIMIT_AS is of no use to a Go program: the
// runtime reserves more address space than the limit before main begins.
func restrict(l Limits) error {
	// Processes that serve requests have priority over validation.
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, childPriority); err != nil {
		return fmt.Errorf("lowering the priority: %w", err)
	}
	seconds := uint64(max(1, l.CPU/time.Second))
	for _, limit := range []struct {
		name     string
		resource int
		value    uint64
	}{
		{"data", unix.RLIMIT_DATA, l.MemoryBytes + dataSlack},
		{"CPU", unix.RLIMIT_CPU, seconds}, // hard at once: Go would ignore the soft one
		{"files", unix.RLIMIT_FSIZE, 0},
		{"core", unix.RLIMIT_CORE, 0},
	} {
		if err := unix.Setrlimit(limit.resource, &unix.Rlimit{Cur: limit.value, Max: limit.value}); err != nil {
			return fmt.Errorf("limiting %s: %w", limit.name, err)
		}
	}
	return nil
}

// peak is the most memory that the process ever had.
func peak(ended *os.ProcessState) uint64 {
	usage, ok := ended.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return uint64(usage.Maxrss) << 10 //nolint:gosec // kilobytes, never negative
}

// isolate makes the child end with this process, and protects it from the terminal's signals.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
