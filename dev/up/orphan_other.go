//go:build !linux

package up

import "syscall"

// endsWithUs: elsewhere an agent whose server was killed goes on until somebody
// ends it, as on a real host.
func endsWithUs() *syscall.SysProcAttr { return nil }
