package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/observed"
)

// serveNodes opens the door for agents.
func (s *Server) serveNodes(ctx context.Context) error {
	r, n := s.rooms, s.rooms.sets[RoleNode]
	leases := &observed.Leases{DB: n.db, Clock: s.cfg.Clock, Log: s.cfg.Log, StaleAfter: r.policy.staleAfter}
	in := &nodeapi.Intake{
		DB: n.db, Tasks: n.tasks, Observed: &observed.Store{DB: n.db, Leases: leases}, Inventory: n.inventory,
		Certificates: n.certificates, Hints: r.hints, Clock: s.cfg.Clock, Log: s.cfg.Log, StaleAfter: r.policy.staleAfter,
	}
	door := &nodeapi.Server{
		TrustDomain: s.cfg.Profile.TrustDomain, Hosts: s.cfg.NodeHosts, CA: r.custody.Authority, Keys: r.custody.Signer,
		Nodes: in, Tasks: in, Reports: in, Hints: r.hints, Log: s.cfg.Log, Clock: s.cfg.Clock,
		CertificateFor: r.policy.certificateTTL, Binaries: r.binaries,
		ReleaseKeys: r.releases.keys.Public, Builds: r.releases.files,
		ReportEvery: func(ids.Node) time.Duration { return seconds(int64(r.policy.reportSeconds())) },
	}
	// Past the door's end: what it hears while it drains is written, too.
	renewed, end := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	defer beside.Wait()
	defer end()
	beside.Go(func() { leases.Run(renewed) })
	return door.Serve(ctx, s.nodeListener)
}

// streamsEndAfter lets short answers end by themselves; what follows events
// would never.
const streamsEndAfter = 500 * time.Millisecond

// serveHTTP serves until ctx ends, then lets what was accepted be answered and
// ends the streams.
func serveHTTP(ctx context.Context, server *http.Server, l net.Listener, endStreams func()) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	timer := time.AfterFunc(streamsEndAfter, endStreams)
	defer timer.Stop()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainFor)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		return fmt.Errorf("draining %s: %w", l.Addr(), err)
	}
	return nil
}

// keyBytes is the size of an HMAC-SHA256 key.
const keyBytes = 32

func newKey() ([]byte, error) {
	key := make([]byte, keyBytes)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("drawing a key: %w", err)
	}
	return key, nil
}
