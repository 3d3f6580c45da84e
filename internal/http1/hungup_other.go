//go:build !linux

package http1

import "net"

// hungUp is told by the answer that cannot be sent.
func hungUp(net.Conn) bool { return false }
