package up

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity/devseed"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/policies"
	productfleet "github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/server"
)

const (
	// simulation is the source of the nodes that --sim-nodes creates.
	simulation = "sim-nodes"
	// testCredit is the reference of the tenant's first credit. The ledger books it once.
	testCredit = "development"
	// development is the actor before the first sign-in.
	development = "system:development"
	// maxFleet bounds a development fleet.
	maxFleet = 10_000
)

// simulate applies simulated nodes in addition to those of the source. Another number at the next
// start adds or removes the difference, except nodes in use.
func (i *installation) simulate(ctx context.Context, nodes []desired.Object) error {
	snap := revision.Snapshot{Source: simulation, Repository: simulation, Commit: simulation, Objects: nodes, Generated: true}
	for n := range snap.Objects {
		o := &snap.Objects[n].Source
		o.Name, o.Repository, o.Commit = simulation, simulation, simulation
	}
	loop := i.server.Services(server.RoleReconcile)
	rev, err := loop.Desired.Apply(ctx, snap, nodesInUse{loop.Slots}.wait)
	if err == nil && rev.Status != revision.StatusApplied {
		return fmt.Errorf("declaring simulated nodes: %s", sync.Reason(rev))
	}
	return err
}

// nodesInUse rejects the removal of nodes that live allocations use. No operator writes simulated
// nodes, so no operator could approve the removal.
type nodesInUse struct{ slots *slots.Service }

func (u nodesInUse) wait(ctx context.Context, tx pgx.Tx, d revision.Difference) (v revision.Verdict, err error) {
	byNode := map[ids.Node]desired.Object{}
	var nodes []ids.Node
	for _, o := range d.Deleted {
		if o.Kind == desired.KindNode {
			n := ids.Node{UUID: o.UID.UUID}
			byNode[n], nodes = o, append(nodes, n)
		}
	}
	used, err := u.slots.InUse(ctx, tx, nodes)
	if err != nil {
		return v, err
	}
	for _, node := range nodes {
		if n := used[node]; n > 0 {
			name := byNode[node].Key().String()
			v.Waits = append(v.Waits, revision.Wait{
				Reason: preview.WaitUnderAllocations, Message: fmt.Sprintf("%s is removed, but %d of its slots are in use", name, n), Objects: []string{name},
			})
		}
	}
	return v, nil
}

// seedTenant creates the development tenant with its users and test credit, and a new key for each user.
// The credit is booked once. A crash between the two transactions is repaired by the next start.
func (i *installation) seedTenant(ctx context.Context) (seeded, error) {
	a, w := i.server.Services(server.RoleAPI), i.server.Services(server.RoleWork)
	ctx = pg.WithScope(ctx, pg.Platform)
	var seed devseed.Seed
	err := pgx.BeginFunc(ctx, a.DB, func(tx pgx.Tx) (err error) {
		if seed, err = devseed.Write(ctx, tx, a.Keys); err != nil {
			return err
		}
		b := &pgx.Batch{}
		audit.Queue(b, audit.Entry{
			Tenant: seed.Tenant, By: audit.By{Actor: development}, Action: "tenant.seed", Target: a.Naming.Name(seed.Tenant.String(), "", "tenant", seed.Tenant.String()).String(),
		})
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return seeded{}, err
	}
	s := seeded{tenant: "dev", project: seed.Project.String(), admin: seed.Admin.Key, operator: seed.Operator.Key, dev: seed.Dev.Key}
	err = pgx.BeginFunc(ctx, w.DB, func(tx pgx.Tx) (err error) {
		currency := w.Policies.Latest().For().String(policies.BillingCurrency)
		if _, err := w.Ledger.EnsureAccounts(ctx, tx, seed.Tenant, currency); err != nil {
			return err
		}
		if credit := i.profile.TestCreditMinor; credit > 0 {
			if err := w.Ledger.TestCredit(ctx, tx, seed.Tenant, money.Minor(credit), testCredit); err != nil {
				return err
			}
		}
		s.balance, s.currency, err = w.Ledger.Balance(ctx, tx, seed.Tenant)
		return err
	})
	return s, err
}

// firstAdminLink returns a link with which an administrator signs in once.
func (i *installation) firstAdminLink(ctx context.Context, email string) (string, error) {
	link, err := i.server.Services(server.RoleAPI).SignIn.FirstAdminLink(ctx, email)
	return i.server.URL() + signin.FirstAdminPath + "#" + link.Code, err
}

// enrolmentToken lets a simulated node enrol.
func (i *installation) enrolmentToken(ctx context.Context, node ids.Node) (string, error) {
	token, _, err := i.server.Services(server.RoleAPI).Fleet.IssueToken(pg.WithScope(ctx, pg.Platform), audit.By{Actor: development}, node)
	return token, err
}

// desiredNodes lists the nodes of desired state.
func (i *installation) desiredNodes(ctx context.Context) ([]desired.Object, error) {
	return i.server.Services(server.RoleReconcile).Desired.List(ctx, desired.KindNode, "", maxFleet)
}

// activeNodes counts the active nodes.
func (i *installation) activeNodes(ctx context.Context) (n int, err error) {
	nodes, err := i.server.Services(server.RoleReconcile).Fleet.Nodes(ctx, productfleet.Filter{Limit: maxFleet})
	for _, one := range nodes {
		if one.Lifecycle == "active" {
			n++
		}
	}
	return n, err
}
