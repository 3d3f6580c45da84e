package remote

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// connecting limits the time to connect. A reachable server answers within seconds, even on another
// continent.
const connecting = 10 * time.Second

// dialer connects to addresses that a GitSource names. It checks the resolved address at connection
// time. A DNS name that resolves differently the second time therefore gains nothing.
func dialer(private bool) *net.Dialer {
	d := &net.Dialer{Timeout: connecting}
	if !private {
		d.Control = func(_, address string, _ syscall.RawConn) error { return public(address) }
	}
	return d
}

func public(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("reading the address %q: %w", address, err)
	}
	if Reserved(at.Addr()) {
		return errs.Invalid("repository", "the Git server is %s, which only this server can reach", at.Addr()).
			Try("name a server of the network; only a development profile may name the local machine")
	}
	return nil
}

// carriers are the IPv6 prefixes that contain an IPv4 address, with its first bit.
var carriers = map[netip.Prefix]int{
	netip.MustParsePrefix("64:ff9b::/96"):   12,
	netip.MustParsePrefix("64:ff9b:1::/48"): 12,
	netip.MustParsePrefix("2002::/16"):      2,
	netip.MustParsePrefix("::/96"):          12,
}

// metadata of clouds that is not link-local.
var metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16")}

// Reserved reports whether an address is this computer, its link, or the metadata service of its cloud.
// Private networks are not reserved: forges are in them.
func Reserved(a netip.Addr) bool {
	a = a.WithZone("").Unmap()
	for prefix, from := range carriers {
		if prefix.Contains(a) && a != netip.IPv6Loopback() && a != netip.IPv6Unspecified() {
			b := a.As16()
			return Reserved(netip.AddrFrom4([4]byte(b[from : from+4])))
		}
	}
	return slices.Contains(metadata, a) || a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.Is4() && a.As4()[0] == 0 ||
		a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// dial connects for ssh, and ends with its context.
func dial(ctx context.Context, address string, private bool) (net.Conn, error) {
	conn, err := dialer(private).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return conn, nil
}
