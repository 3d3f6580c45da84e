package webhook_test

import (
	"os/exec"
	"syscall"
)

// endGroup ends what the command has started, too: go run starts the program that it has built.
func endGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
