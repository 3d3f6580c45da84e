//go:build failpoint

package failpoint

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// charge is an armed point: the process ends at the n-th hit of name, which it appends to the file log.
type charge struct {
	name string
	n    int
	log  string
}

var (
	gate = os.Getenv("GPUAAS_FAILPOINT_GATE")
	file = os.Getenv("GPUAAS_FAILPOINT_FILE")

	mu    sync.Mutex // locked in Hit
	armed = parse(os.Getenv("GPUAAS_FAILPOINT"), os.Getenv("GPUAAS_FAILPOINT_LOG"))
	text  string // of the file, when armed was read from it
	hits  int    // of armed
)

func parse(point, log string) charge {
	name, count, _ := strings.Cut(point, ":")
	if n, err := strconv.Atoi(count); err == nil {
		return charge{name, n, log}
	}
	return charge{name, 1, log}
}

// Hit ends the process when name is armed and this is the hit it was armed for.
func Hit(name string) {
	mu.Lock()
	defer mu.Unlock()
	arm()
	if armed.name == "" || name != armed.name || !open() {
		return
	}
	if hits++; hits != armed.n || !armed.note() {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way; nothing after the point may run
}

// arm reads the file. Another content is another point, whose hits count from now on.
func arm() {
	if file == "" {
		return
	}
	now, err := os.ReadFile(file)
	if err != nil || string(now) == text {
		return
	}
	point, log, _ := strings.Cut(strings.TrimSpace(string(now)), " ")
	text, armed, hits = string(now), parse(point, log), 0
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
func (c charge) note() (first bool) {
	if c.log == "" {
		return true
	}
	line := []byte(c.name + "\n")
	if text, err := os.ReadFile(c.log); err == nil && bytes.Contains(text, line) {
		return false
	}
	f, err := os.OpenFile(c.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return true
	}
	_, _ = f.Write(line)
	_ = f.Sync()
	return true
}
