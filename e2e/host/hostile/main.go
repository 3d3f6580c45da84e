// Command hostile is a program of a tenant that attacks its node. It prints "ready" when the attack is in effect,
// and continues until its input ends. What it has made stays.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// attacks lists the attacks by name. Each one returns when it is in effect, or runs go-routines that continue.
var attacks = map[string]func() error{
	"crash-names": crashNames, "crash": crash, "process-names": processNames, "fork-bomb": forkBomb, "signals": signals,
	"descriptors": descriptors, "inotify": inotify, "keys": keys,
	"deep-trees": deepTrees, "fifos": fifos, "files": files, "mounts": mounts, "fuse": fuse,
	"connections": connections, "listen": listen,
}

// mostProcesses bounds the processes of all attacks together.
const mostProcesses = 2000

func main() {
	runtime.LockOSThread()
	if len(os.Args) < 2 || attacks[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: hostile ATTACK [ARGUMENT]...")
		os.Exit(2)
	}
	// The limit of the user applies also where the limit of a slice is not enforced. No attack may exceed it.
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: mostProcesses, Max: mostProcesses}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := attacks[os.Args[1]](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// scale returns a number of this attack: the default, or the first argument.
func scale(usual int) int {
	if len(os.Args) > 2 {
		if n, err := strconv.Atoi(os.Args[2]); err == nil && n > 0 {
			return n
		}
	}
	return usual
}

// forever repeats an act until the program ends.
func forever(act func()) {
	go func() {
		for {
			act()
		}
	}()
}

// within repeats an act for some seconds.
func within(limit time.Duration, act func() error) error {
	for end := time.Now().Add(limit); time.Now().Before(end); {
		if err := act(); err != nil {
			return err
		}
	}
	return nil
}
