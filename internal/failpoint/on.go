//go:build failpoint

package failpoint

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	armed, after = parse(os.Getenv("GPUAAS_FAILPOINT"))
	logFile      = os.Getenv("GPUAAS_FAILPOINT_LOG")
	gate         = os.Getenv("GPUAAS_FAILPOINT_GATE")
	hits         atomic.Int64
)

func parse(s string) (name string, n int64) {
	name, count, _ := strings.Cut(s, ":")
	if n, err := strconv.ParseInt(count, 10, 64); err == nil {
		return name, n
	}
	return name, 1
}

// Hit ends the process when name is armed and this is the hit it was armed for.
func Hit(name string) {
	if armed == "" || name != armed || !open() || hits.Add(1) != after || !note(name) {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way; nothing after the point may run
}

func open() bool {
	if gate == "" {
		return true
	}
	_, err := os.Stat(gate)
	return err == nil
}

// note records the hit. A recorded point does not kill again: a supervisor restarts a killed
// process with the same environment, and the kill would be repeated for ever.
func note(name string) (first bool) {
	if logFile == "" {
		return true
	}
	line := []byte(name + "\n")
	if text, err := os.ReadFile(logFile); err == nil && bytes.Contains(text, line) {
		return false
	}
	f, err := os.OpenFile(logFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return true
	}
	_, _ = f.Write(line)
	_ = f.Sync()
	return true
}
