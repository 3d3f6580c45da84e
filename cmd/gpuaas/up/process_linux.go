package up

import "syscall"

// dieWithParent ends an agent with us, also when we are killed: nobody else would,
// and the next start runs another agent on the same host.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }
