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

// ports limits the ports that are tried after an occupied one.
const ports = 50

// Listen opens an address. If roam is set, it tries the next ports after an occupied one, so that
// two development servers can run at the same time.
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
