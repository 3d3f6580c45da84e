//go:build !linux

package up

import "syscall"

// endsWithUs has no effect here: an agent whose server was killed runs until the user ends it, as
// on a real node.
func endsWithUs() *syscall.SysProcAttr { return nil }
