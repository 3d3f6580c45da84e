package up

import "syscall"

// endsWithUs has the kernel end a child when this process is killed. The caller
// keeps the thread that starts it: the kernel watches that thread.
func endsWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
