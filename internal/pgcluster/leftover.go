package pgcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// poll is how often a start looks at the pid file: a warm start takes 30 ms.
const poll = 5 * time.Millisecond

// patience is how long processes of a killed cluster get to end by themselves.
// A postmaster kills its own stragglers after 5 s.
const patience = 7 * time.Second

// sweep ends what a killed owner left running on the data directory. We hold
// the lock, so none of it belongs to anybody. Two servers on one directory would
// destroy it; PostgreSQL refuses the second, and we would never start.
func sweep(ctx context.Context, data, socket string) error {
	postmaster, ok := readPid(data)
	if !ok {
		return nil // a clean shutdown removes the file
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	stop := syscall.SIGQUIT
	escalate := time.NewTimer(patience)
	defer escalate.Stop()
	for {
		alive := runningIn(data, postmaster)
		if len(alive) == 0 {
			break
		}
		for _, pid := range alive {
			// Backends end by themselves when their postmaster does.
			if pid == postmaster || stop == syscall.SIGKILL {
				_ = syscall.Kill(pid, stop)
				_ = syscall.Kill(pid, syscall.SIGCONT) // a stopped process would never take it
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-escalate.C:
			stop = syscall.SIGKILL
		case <-tick.C:
		}
	}
	// The pid may by now be anybody's, or a zombie's that init never reaps.
	// PostgreSQL would believe both lock files.
	for _, file := range []string{filepath.Join(data, "postmaster.pid"), filepath.Join(socket, ".s.PGSQL.5432.lock")} {
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("removing a stale lock: %w", err)
		}
	}
	return nil
}

func pidFile(data string) []string {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return nil
	}
	return strings.Split(string(text), "\n")
}

func readPid(data string) (int, bool) {
	lines := pidFile(data)
	if len(lines) == 0 {
		return 0, false
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(lines[0])) // torn by a crash: nobody's
	return pid, true
}

// ready says whether the postmaster of this pid accepts connections: it writes
// so to the eighth line.
func ready(data string, pid int) bool {
	lines := pidFile(data)
	return len(lines) >= 8 && lines[0] == strconv.Itoa(pid) && strings.TrimSpace(lines[7]) == "ready"
}
