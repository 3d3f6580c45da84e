package nodeapi

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp reports whether the peer has closed its side, as the kernel knows it. A read would report it,
// too, and would need a goroutine for each peer.
func hungUp(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		asked := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // descriptors are small
		n, err := unix.Poll(asked, 0)
		gone = err == nil && n > 0
	})
	return gone || err != nil
}
