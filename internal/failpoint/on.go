//go:build failpoint

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	armed, after = parse(os.Getenv("GPUAAS_FAILPOINT"))
	logFile      = os.Getenv("GPUAAS_FAILPOINT_LOG")
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
	if armed == "" || name != armed || hits.Add(1) != after {
		return
	}
	if logFile != "" {
		if f, err := os.OpenFile(logFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, _ = f.WriteString(name + "\n")
			_ = f.Sync()
		}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way; nothing after the point may run
}
