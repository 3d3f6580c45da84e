package up

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/agent"
	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/dev/simssh"
)

// startShells starts the SSH server of each simulated node. A login gets a shell on this computer, so there is none if other
// computers reach the installation, unless the operator allows it.
func (i *installation) startShells(ctx context.Context, wait *sync.WaitGroup, configs []agent.Config) {
	if !i.cfg.SimShell && !onLoopback(i.cfg.Listen, i.cfg.NodeListen, i.cfg.RelayListen, i.cfg.Metrics, i.cfg.IssuerListen, i.cfg.PaymentsListen, i.cfg.MailListen, i.cfg.StorageListen) {
		return
	}
	for _, c := range configs {
		wait.Go(func() {
			if !awaitHost(ctx, c.StateDir) {
				return
			}
			s := &simssh.Server{StateDir: c.StateDir, Clock: c.Clock, Log: c.Log}
			if err := s.Serve(ctx); err != nil {
				c.Log.WarnContext(ctx, "simulated SSH server ended", "component", "up", "err", err)
			}
		})
	}
}

// hostPause is the polling interval for a simulated node that its agent creates.
const hostPause = 100 * time.Millisecond

// awaitHost waits until the agent has created the simulated node.
func awaitHost(ctx context.Context, stateDir string) bool {
	for {
		if _, err := sim.Read(sim.Path(stateDir)); err == nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(hostPause):
		}
	}
}

// onLoopback reports whether no other computer reaches the addresses. An empty one is not served.
func onLoopback(addresses ...string) bool {
	for _, address := range addresses {
		if address == "" {
			continue
		}
		host, _, err := net.SplitHostPort(address)
		ip, bad := netip.ParseAddr(host)
		if err != nil || host != "localhost" && (bad != nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}
