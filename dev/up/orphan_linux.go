package up

import "syscall"

// endsWithUs makes the kernel end a child when this process is killed. The caller locks the
// starting thread, because the kernel watches that thread.
func endsWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
