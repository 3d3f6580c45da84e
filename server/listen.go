package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// ports is how many ports after a taken one are tried.
const ports = 50

// Listen opens an address. Where roam is set, a taken port moves to the next
// free one, so that two development servers may run beside each other.
func Listen(ctx context.Context, address string, roam bool) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errs.Invalid("listen", "%q is no address", address).Try("write it as 127.0.0.1:8080; port 0 selects a free port")
	}
	first, err := strconv.Atoi(port)
	if err != nil || first < 0 || first > 65535 {
		return nil, errs.Invalid("listen", "the port of %q must be between 0 and 65535", address)
	}
	var cfg net.ListenConfig
	for n := first; ; n++ {
		l, err := cfg.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(n)))
		switch {
		case err == nil:
			return l, nil
		case !roam || !errors.Is(err, syscall.EADDRINUSE) || n-first >= ports || n == 65535:
			return nil, fmt.Errorf("listening on %s: %w", address, err)
		}
	}
}
