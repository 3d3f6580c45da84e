package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticks is the number of clock ticks in a second of CPU time in /proc. It is the same on every
// Linux.
const ticks = 100

// stat is the part of /proc/PID/stat that the bench uses.
type stat struct {
	parent      int
	Name        string
	Cpu, reaped float64 // seconds: of the process, and of its children that have ended
}

func StatOf(pid int) (s stat, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, false
	}
	open, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
	fields := strings.Fields(string(text[end+1:]))
	if open < 0 || len(fields) < 15 {
		return s, false
	}
	at := func(i int) float64 {
		n, _ := strconv.ParseFloat(fields[i], 64) // the kernel writes numbers only
		return n / ticks
	}
	s.parent, _ = strconv.Atoi(fields[1])
	s.Name = string(text[open+1 : end])
	s.Cpu, s.reaped = at(11)+at(12), at(13)+at(14)
	return s, true
}

// Family returns a process and all its descendants.
func Family(pid int) []int {
	all := map[int][]int{}
	entries, _ := filepath.Glob("/proc/[0-9]*") // a constant, well-formed pattern
	for _, e := range entries {
		child, _ := strconv.Atoi(filepath.Base(e))
		if s, ok := StatOf(child); ok {
			all[s.parent] = append(all[s.parent], child)
		}
	}
	list := []int{pid}
	for i := 0; i < len(list); i++ {
		list = append(list, all[list[i]]...)
	}
	return list
}

// Cpu returns the CPU time of the bench and of all processes that it has started.
func (l *Lab) Cpu() (seconds float64) {
	for _, pid := range Family(os.Getpid()) {
		if s, ok := StatOf(pid); ok {
			seconds += s.Cpu + s.reaped
		}
	}
	return seconds
}

// Resident returns the resident memory of a process in MiB.
func Resident(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib / 1024
		}
	}
	return 0
}

// ChildVariable is the environment variable that makes this program run one part of a measurement.
// A separate process has its own CPU time and memory, so other parts do not distort them.
const ChildVariable = "GPUAAS_BENCH_CHILD"

// ProfileVariable is the environment variable that names a folder for CPU profiles.
const ProfileVariable = "BENCH_PROFILE"

func (l *Lab) ChildCommand(ctx context.Context, name string, env ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self) //nolint:gosec // this very program
	cmd.Env = append(append(os.Environ(), ChildVariable+"="+name), env...)
	cmd.Stderr = l.Log
	Gentle(cmd)
	return cmd, nil
}

// Gentle makes a cancelled command end by SIGTERM, and by SIGKILL if it still runs after 20 s.
func Gentle(cmd *exec.Cmd) {
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
}
