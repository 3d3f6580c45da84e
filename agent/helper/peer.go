package helper

import (
	"fmt"
	"net"
	"syscall"
)

// peerOf is the uid of the process at the other end, as the kernel noted it when the
// connection was made.
func peerOf(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("identifying the caller: %w", err)
	}
	var cred *syscall.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) {
		cred, asked = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return 0, fmt.Errorf("identifying the caller: %w", err)
	}
	if asked != nil {
		return 0, fmt.Errorf("identifying the caller: %w", asked)
	}
	return int(cred.Uid), nil
}
