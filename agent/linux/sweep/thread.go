package sweep

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// as runs do on a thread that is the uid's, which ends with it. Only when no
// process of the uid lives: one could end us all by signalling that thread.
func as(uid int, do func() error) error {
	done := make(chan error, 1)
	go onThread(uid, do, done)
	return <-done
}

// onThread never unlocks its thread, so that no other goroutine runs with the uid. The first thread
// of the process cannot end, and /proc shows its owner as the owner of the process, so onThread
// occupies it while another thread does the work.
func onThread(uid int, do func() error, done chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		elsewhere := make(chan error, 1)
		go onThread(uid, do, elsewhere)
		done <- <-elsewhere
		runtime.UnlockOSThread()
		return
	}
	// The raw call: the one of the library changes every thread of the process.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
		done <- fmt.Errorf("becoming uid %d: %w", uid, errno)
		return
	}
	done <- do()
}
