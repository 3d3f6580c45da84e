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
const maxListeners = 8

// Listeners returns addresses at which programs of this node listen. wanted decides by the address and the owner.
func Listeners(o *hostos.OS, wanted func(address netip.AddrPort, owner int) bool) (found []string, err error) {
	for _, file := range []string{"/proc/1/net/tcp", "/proc/1/net/tcp6"} {
		err := o.Lines(file, func(line string) {
			addresses, owner := parseListener(line)
			for _, address := range addresses {
				if len(found) < maxListeners && wanted(address, owner) {
					found = append(found, address.String())
				}
			}
		})
		if err != nil {
			return nil, fmt.Errorf("reading the sockets of this node: %w", err)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// parseListener reads a line of /proc/net/tcp or tcp6. The address of a socket that listens on all is that of loopback, and
// most programs that listen on all of IPv6 are reached over IPv4, too.
func parseListener(line string) (addresses []netip.AddrPort, uid int) {
	f := strings.Fields(line)
	const state, listen, owner = 3, "0A", 7
	if len(f) <= owner || f[state] != listen {
		return nil, 0
	}
	host, port, _ := strings.Cut(f[1], ":")
	ip, err := hex.DecodeString(host)
	number, bad := strconv.ParseUint(port, 16, 16)
	uid, worse := strconv.Atoi(f[owner])
	if len(ip) != net.IPv4len && len(ip) != net.IPv6len || errors.Join(err, bad, worse) != nil {
		return nil, 0
	}
	for word := range slices.Chunk(ip, net.IPv4len) { // little endian
		slices.Reverse(word)
	}
	addr, _ := netip.AddrFromSlice(ip)
	all := []netip.Addr{addr.Unmap()}
	if addr.IsUnspecified() {
		all = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		if addr.Is6() {
			all = append(all, netip.IPv6Loopback())
		}
	}
	for _, one := range all {
		addresses = append(addresses, netip.AddrPortFrom(one, uint16(number)))
	}
	return addresses, uid
}
