package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/rest/riverui"
	"github.com/gpuaas/gpuaas/api/stream"
	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// serveAPI opens the door for people and programs.
func (s *Server) serveAPI(ctx context.Context) error {
	r, a := s.rooms, s.rooms.sets[RoleAPI]
	river, err := riverui.New(ctx, r.queue, rest.RiverPath, s.cfg.Log)
	if err != nil {
		return err
	}
	key, err := keptKey(filepath.Join(s.cfg.StateDir, "cursor.key"))
	if err != nil {
		return err
	}
	config := rest.Config{
		Identity: a.identity, Catalog: a.catalog, Allocations: a.allocations, Inventory: a.inventory, Metering: a.metering, Ledger: a.ledger,
		Billing: a.billing, Payments: a.payments,
		Statements: &billing.Statements{DB: a.db, Identity: a.identity, Ledger: a.ledger, Metering: a.metering, Clock: s.cfg.Clock},
		Events:     &stream.Server{Facts: &event.Store{DB: a.db}, Hints: r.hints, Log: s.cfg.Log, Clock: s.cfg.Clock},
		Desired:    a.desired, Changes: a.changes, History: a.changes.History, DB: a.db,
		Trace: s.tracer().Trace, Hook: a.hook, Known: s.known,
		Seen: a.seen, Machines: s.machines(),
		AuditLog:       &audit.Service{DB: a.db},
		APIKeysEnabled: func(c identity.Caller) bool { return r.policy.of(c).Bool(policies.AuthAPIKeysEnabled) },
		Currency:       func() string { return r.policy.view().String(policies.BillingCurrency) },
		Naming:         s.cfg.naming(), CursorKey: key, Front: s.cfg.Front,
		Limits:       func(class rest.Class, c identity.Caller) rest.Limit { return rest.LimitOf(class, r.policy.of(c)) },
		SharedLimits: identity.Limits{DB: a.db},
		Ready:        r.pools[RoleAPI].Ping, Checks: s.checks(), RiverUI: river, Audit: a.audit, Log: s.cfg.Log, Clock: s.cfg.Clock,
	}
	r.tellSignIn(&config, s.cfg.Profile.Development)
	door, err := rest.New(config) //nolint:contextcheck // its handlers take the context of the request they answer
	if err != nil {
		return fmt.Errorf("building the API: %w", err)
	}
	if err := s.figures.Register(door); err != nil {
		return fmt.Errorf("registering the metrics of the API: %w", err)
	}
	server := door.HTTPServer()
	streams, end := context.WithCancel(context.WithoutCancel(ctx))
	server.BaseContext = func(net.Listener) context.Context { return streams }
	s.group.Go(func() error {
		defer end()
		return serveHTTP(ctx, server, s.apiListener, end)
	})
	s.group.Go(func() error { return door.ShareLimits(ctx) })
	return nil
}

// seen tells conditions what the hosts last said.
func (s *set) seen(ctx context.Context, of []ids.Allocation) (map[ids.Allocation]allocation.Seen, error) {
	list, err := s.observed.Allocations(ctx, of)
	if err != nil {
		return nil, err
	}
	seen := make(map[ids.Allocation]allocation.Seen, len(list))
	for id, o := range list {
		seen[id] = allocation.Seen{Reported: true, Phase: string(o.Phase), Step: o.Step, Message: o.Message, Failures: o.Failures, Generation: o.Generation}
	}
	return seen, s.faults(ctx, of, seen)
}

// faults adds what holders of ill GPUs are to be told.
func (s *set) faults(ctx context.Context, of []ids.Allocation, seen map[ids.Allocation]allocation.Seen) error {
	which := make([]uuid.UUID, len(of))
	for i, id := range of {
		which[i] = id.UUID
	}
	shown, err := s.inventory.TenantFaults(ctx, s.db, which)
	if err != nil {
		return err
	}
	for id, faults := range shown {
		a := ids.From[ids.Allocation](id)
		one := seen[a]
		one.FaultSince = faults[0].Since
		texts := make([]string, len(faults))
		for i, f := range faults {
			texts[i] = f.Text
		}
		one.Fault = strings.Join(texts, " ")
		seen[a] = one
	}
	return nil
}

// machines is the rooms' part in nodes, with the rights of the API.
func (s *Server) machines() machines {
	return machines{
		set: s.rooms.sets[RoleAPI], queue: s.rooms.queue, naming: s.cfg.naming(),
		url: s.nodeDoor(), authority: s.rooms.custody.Authority, binaries: s.rooms.binaries,
	}
}

// nodeDoor is where hosts reach the node door: by the first name that it goes by, at
// the port that it listens at, here or in another process.
func (s *Server) nodeDoor() string {
	at := s.cfg.NodeListen
	if s.nodeListener != nil {
		at = s.nodeListener.Addr().String()
	}
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return "https://" + at
	}
	if len(s.cfg.NodeHosts) > 0 {
		host = s.cfg.NodeHosts[0]
	}
	return "https://" + net.JoinHostPort(host, port)
}

// audit records what an administrator does to a job.
func (s *set) audit(ctx context.Context, c identity.Caller, action, target string) error {
	b := &pgx.Batch{}
	audit.Queue(b, audit.Entry{Tenant: c.Tenant, Actor: c.Actor(), Action: action, Target: target, CorrelationID: c.CorrelationID})
	return s.db.SendBatch(pg.WithScope(ctx, c.Scope(true)), b).Close()
}

// keptKey reads a key that outlives the process, or makes it: a page can be turned
// and what was sealed be opened after a restart.
func keptKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if err == nil {
		return key, nil
	}
	if key, err = newKey(); err != nil {
		return nil, err
	}
	if err := durable.Create(path, key, 0o600); err != nil {
		// Another process was first: its key is the one.
		return os.ReadFile(path)
	}
	return key, nil
}
