package probe

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// maxListeners bounds the ports of others that a probe tries to reach.
const maxListeners = 4

// Listeners returns addresses at which programs of this node listen. wanted decides by the address and the owner.
func Listeners(o *hostos.OS, wanted func(address netip.AddrPort, owner int) bool) (found []string, err error) {
	err = o.Lines("/proc/1/net/tcp", func(line string) {
		address, owner, listens := parseListener(line)
		if listens && len(found) < maxListeners && wanted(address, owner) {
			found = append(found, address.String())
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reading the sockets of this node: %w", err)
	}
	return found, nil
}

// parseListener reads a line of /proc/net/tcp. The address of a socket that listens on all is that of loopback.
func parseListener(line string) (address netip.AddrPort, uid int, listens bool) {
	f := strings.Fields(line)
	const state, listen, owner = 3, "0A", 7
	if len(f) <= owner || f[state] != listen {
		return address, 0, false
	}
	host, port, _ := strings.Cut(f[1], ":")
	ip, err := hex.DecodeString(host)
	number, bad := strconv.ParseUint(port, 16, 16)
	uid, worse := strconv.Atoi(f[owner])
	if len(ip) != net.IPv4len || errors.Join(err, bad, worse) != nil {
		return address, 0, false
	}
	slices.Reverse(ip) // little endian
	addr, _ := netip.AddrFromSlice(ip)
	if addr.IsUnspecified() {
		addr = netip.MustParseAddr("127.0.0.1")
	}
	return netip.AddrPortFrom(addr, uint16(number)), uid, true
}
