package pgcluster

import "syscall"

// descriptorPaths reports whether /proc names a process's open folders.
const descriptorPaths = true

// dieWithParent makes our own kill -9 an immediate shutdown of the child: its
// backends end with it and the next start recovers.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
