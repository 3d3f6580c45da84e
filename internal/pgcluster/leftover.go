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

// poll is the interval at which a start reads the pid file. A warm start needs 30 ms.
const poll = 5 * time.Millisecond

// patience is the time for the processes of a killed cluster to end by themselves. A postmaster
// kills its own children after 5 s.
const patience = 7 * time.Second

// sweep ends the processes that a killed owner has left on the data directory. We own the lock, so
// no process there has an owner. PostgreSQL rejects a second server on one directory, so the
// cluster would otherwise never start.
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
				_ = syscall.Kill(pid, syscall.SIGCONT) // a stopped process would never receive it
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
	// The pid may now belong to another process, or to a zombie that init never reaps. PostgreSQL
	// would trust both lock files and not start.
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
	pid, _ := strconv.Atoi(strings.TrimSpace(lines[0])) // truncated by a crash: no process
	return pid, true
}

// ready reports whether the postmaster of this pid accepts connections: it writes this to the
// eighth line of the pid file.
func ready(data string, pid int) bool {
	lines := pidFile(data)
	return len(lines) >= 8 && lines[0] == strconv.Itoa(pid) && strings.TrimSpace(lines[7]) == "ready"
}
