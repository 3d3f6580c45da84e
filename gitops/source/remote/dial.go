package remote

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/netguard"
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
	if netguard.Reserved(at.Addr()) {
		return errs.Invalid("repository", "the Git server is %s, which only this server can reach", at.Addr()).
			Try("name a server of the network; only a development profile may name the local machine")
	}
	return nil
}

// dial connects for ssh, and ends with its context.
func dial(ctx context.Context, address string, private bool) (net.Conn, error) {
	conn, err := dialer(private).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return conn, nil
}
