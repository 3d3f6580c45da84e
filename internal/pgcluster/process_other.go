//go:build unix && !linux

package pgcluster

import "syscall"

const descriptorPaths = false

// dieWithParent cannot be had here: a server that survived us is stopped by the
// next start.
func dieWithParent(*syscall.SysProcAttr) {}
