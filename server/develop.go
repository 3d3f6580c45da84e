package server

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// What follows serves whoever runs a development installation around a server.

// Sync applies the source's present tree now, and says what came of it.
func (s *Server) Sync(ctx context.Context) (desired.Revision, error) { return s.sync.Sync(ctx) }

// simulation is the source of nodes that --sim-nodes made up.
const simulation = "sim-nodes"

// Simulate declares made-up nodes beside the source's. Another number at the
// next start declares or removes the difference, except what is in use.
func (s *Server) Simulate(ctx context.Context, nodes []desired.Object) error {
	snap := desired.Snapshot{Source: simulation, Repository: simulation, Commit: simulation, Objects: nodes, Generated: true}
	for i := range snap.Objects {
		o := &snap.Objects[i].Source
		o.Name, o.Repository, o.Commit = simulation, simulation, simulation
	}
	room := s.rooms.sets[RoleReconcile]
	rev, err := room.desired.Apply(ctx, snap, room.inUse)
	if err == nil && rev.Status != desired.StatusApplied {
		return fmt.Errorf("declaring simulated nodes: %s", sync.Reason(rev))
	}
	return err
}

// Seeded is the development tenant.
type Seeded struct {
	identity.Seed

	Balance  money.Minor
	Currency string
}

// testCredit is the reference of the tenant's first money: it comes once.
const testCredit = "development"

// development is who acts before anyone has signed in.
const development = "system:development"

// Seed makes the development tenant with its people and test credit, and a fresh
// key for each of them. The credit comes once: a crash between the two halves is
// made good by the next start.
func (s *Server) Seed(ctx context.Context, credit int64) (seed Seeded, err error) {
	a, w := s.rooms.sets[RoleAPI], s.rooms.sets[RoleWork]
	ctx = pg.WithScope(ctx, pg.Platform)
	err = pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		if seed.Seed, err = a.identity.SeedDevelopment(ctx, tx, true); err != nil {
			return err
		}
		b := &pgx.Batch{}
		audit.Queue(b, audit.Entry{
			Tenant: seed.Tenant, Actor: development, Action: "tenant.seed", Target: s.cfg.naming().Name(seed.Tenant.String(), "", "tenant", seed.Tenant.String()).String(),
		})
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return seed, err
	}
	err = pgx.BeginFunc(ctx, w.db, func(tx pgx.Tx) error {
		currency := s.rooms.policy.view().String(policies.BillingCurrency)
		if _, err := w.ledger.EnsureAccounts(ctx, tx, seed.Tenant, currency); err != nil {
			return err
		}
		if credit > 0 {
			if err := w.ledger.TestCredit(ctx, tx, seed.Tenant, money.Minor(credit), testCredit); err != nil {
				return err
			}
		}
		seed.Balance, seed.Currency, err = w.ledger.Balance(ctx, tx, seed.Tenant)
		return err
	})
	return seed, err
}

// FirstAdminLink is where an administrator signs in once.
func (s *Server) FirstAdminLink(ctx context.Context, email string) (string, error) {
	link, err := s.rooms.sets[RoleAPI].identity.FirstAdminLink(ctx, email)
	return s.URL() + identity.FirstAdminPath + "#" + link.Code, err
}

// EnrolmentToken lets a development fleet beside the server enrol its nodes.
func (s *Server) EnrolmentToken(ctx context.Context, node ids.Node) (string, error) {
	token, _, err := s.machines().tokenFor(pg.WithScope(ctx, pg.Platform), audit.Entry{Actor: development}, node)
	return token, err
}

// maxFleet bounds a development fleet.
const maxFleet = 10_000

// Declared lists the declared nodes.
func (s *Server) Declared(ctx context.Context) ([]desired.Object, error) {
	return s.rooms.sets[RoleReconcile].desired.List(ctx, desired.KindNode, "", maxFleet)
}

// ActiveNodes counts the nodes that report and may be used.
func (s *Server) ActiveNodes(ctx context.Context) (n int, err error) {
	nodes, err := s.rooms.sets[RoleReconcile].inventory.Nodes(ctx, "", maxFleet)
	for _, one := range nodes {
		if one.Lifecycle == "active" {
			n++
		}
	}
	return n, err
}
