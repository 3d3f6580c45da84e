//go:build unix && !linux

package up

import "syscall"

// dieWithParent cannot be had here: an agent that survived us keeps its host, and
// the next start's waits for it to be ended.
func dieWithParent(*syscall.SysProcAttr) {}
