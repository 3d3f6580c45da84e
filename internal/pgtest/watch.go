package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// watcher waits for the end of its input, that is of the test process, and
// removes the folder. The postmaster dies of the same event on Linux; elsewhere
// this is what ends it. QUIT and not KILL: only a postmaster that shuts down
// gives its shared memory segment back.
const watcher = `
cat >/dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	[ -e "$1/data/postmaster.pid" ] || break
	sleep 0.1
done
for try in 1 2 3 4 5; do
	rm -rf "$1" 2>/dev/null && exit
	sleep 0.2
done
`

// watch starts the watcher in a session of its own, where Ctrl-C does not reach it.
func watch(dir string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making the watcher's pipe: %w", err)
	}
	cmd := exec.Command("/bin/sh", "-c", watcher, "sh", dir) //nolint:noctx // outlives every context, by design
	cmd.Dir = "/"
	cmd.Stdin = read
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the watcher: %w", err)
	}
	_ = read.Close()
	begun.pipe = write
	return nil
}
