package change

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/fleet"
)

// Gatherer reads what a preview needs to know about the objects that a change touches. It queries
// each service once, whatever the size of the change.
type Gatherer struct {
	Desired     *desired.Store
	Policies    *policies.Client
	Identity    *identity.Service
	Catalog     *catalog.Service
	Ledger      *ledger.Service
	Metering    *metering.Service
	Fleet       *fleet.Service
	Allocations *allocation.Service
}

// Gather reads on q, so that the rows are those that the caller's transaction sees.
func (g Gatherer) Gather(ctx context.Context, q pg.Queryer, t preview.Touched) (f preview.Inputs, err error) {
	if len(t.Scopes) > 0 {
		err = g.addScopes(ctx, q, t, &f)
	}
	if err == nil && t.Caps {
		err = g.addHolders(ctx, q, &f)
	}
	if err == nil && len(t.Nodes)+len(t.SKUs) > 0 {
		err = g.addFleet(ctx, q, t, &f)
	}
	if err == nil && len(t.Nodes)+len(t.SKUs) > 0 {
		err = g.addAllocations(ctx, q, t, &f)
	}
	if err == nil && len(t.FreeGiB) > 0 {
		err = g.addStored(ctx, q, t, &f)
	}
	return f, err
}

// addScopes resolves the scopes of policies. SKUs and nodes are scopes if they are desired.
func (g Gatherer) addScopes(ctx context.Context, q pg.Queryer, t preview.Touched, f *preview.Inputs) (err error) {
	if f.Subjects, err = g.Identity.ScopeSubjects(ctx, q, t.Scopes); err != nil {
		return err
	}
	if f.Applied, err = g.Policies.Subjects(ctx, q, t.Scopes); err != nil {
		return err
	}
	kinds := map[policies.Level]desired.Kind{policies.LevelSKU: desired.KindSKU, policies.LevelNode: desired.KindNode}
	names := []desired.Name{}
	for _, scope := range t.Scopes {
		if kind, ok := kinds[scope.Level()]; ok {
			names = append(names, desired.Name{Kind: kind, Name: scope.Name()})
		}
	}
	have, err := g.Desired.Named(ctx, q, names)
	if err != nil {
		return err
	}
	exists := map[desired.Name]bool{}
	for _, o := range have {
		exists[o.Key()] = true
	}
	for _, scope := range t.Scopes {
		if kind, ok := kinds[scope.Level()]; ok && !exists[desired.Name{Kind: kind, Name: scope.Name()}] {
			delete(f.Subjects, scope)
		}
	}
	return nil
}

// addHolders counts live allocations by owner. Only a change of a cap needs the counts.
func (g Gatherer) addHolders(ctx context.Context, q pg.Queryer, f *preview.Inputs) (err error) {
	if f.Policies, err = g.Policies.Snapshot(ctx); err != nil {
		return err
	}
	list, err := g.Allocations.Holdings(ctx, q)
	if err != nil {
		return err
	}
	tenants, projects := make([]ids.Tenant, len(list)), make([]ids.Project, len(list))
	for i, h := range list {
		tenants[i], projects[i] = h.Tenant, h.Project
	}
	names, err := g.Identity.TenantNames(ctx, q, tenants)
	if err != nil {
		return err
	}
	projectNames, err := g.Identity.ProjectNames(ctx, q, projects)
	for _, h := range list {
		f.Holders = append(f.Holders, preview.Holder{
			Tenant: h.Tenant, TenantName: names[h.Tenant], Project: h.Project, ProjectName: projectNames[h.Project], User: h.User, Count: h.Count,
		})
	}
	return err
}

// addFleet adds nodes, slots and prices.
func (g Gatherer) addFleet(ctx context.Context, q pg.Queryer, t preview.Touched, f *preview.Inputs) error {
	reported, err := reportedNodes(ctx, q, t.Nodes)
	if err != nil {
		return err
	}
	nodes, err := g.Fleet.NodeSummaries(ctx, q, t.Nodes)
	for _, n := range nodes {
		f.Nodes = append(f.Nodes, preview.Node{
			ID: n.ID, Name: n.Name, SKU: n.SKU, Cordoned: n.Cordoned, Stock: preview.Stock(n.Stock), Held: n.Held, Reported: reported[n.ID.UUID],
		})
	}
	if err != nil {
		return err
	}
	stock, fleet, err := g.Fleet.Stock(ctx, q)
	if err != nil {
		return err
	}
	f.Fleet, f.Stock = fleet, make(map[string]preview.Stock, len(stock))
	for sku, n := range stock {
		f.Stock[sku] = preview.Stock(n)
	}
	skus, err := g.Catalog.All(ctx, q)
	f.Prices = make(map[string]preview.Price, len(skus))
	for _, s := range skus {
		f.Prices[s.Name] = preview.Price{Currency: s.Currency, Minor: s.PriceMinor, Active: s.Active}
	}
	if err != nil {
		return err
	}
	f.Burn, err = g.Metering.AllBurns(ctx, q)
	return err
}

// addStored adds the bytes of all files, which a storage class prices.
func (g Gatherer) addStored(ctx context.Context, q pg.Queryer, t preview.Touched, f *preview.Inputs) (err error) {
	if f.Burn, err = g.Metering.AllBurns(ctx, q); err != nil {
		return err
	}
	f.Stored = make(map[int64]int64, len(t.FreeGiB))
	for _, free := range t.FreeGiB {
		if f.Stored[free], err = g.Metering.AllStored(ctx, q, free*metering.GiB); err != nil {
			return err
		}
	}
	return nil
}

// reportedNodes returns the nodes whose agents have reported at least once.
func reportedNodes(ctx context.Context, q pg.Queryer, nodes []ids.Node) (map[uuid.UUID]bool, error) {
	keys := make([]uuid.UUID, len(nodes))
	for i, n := range nodes {
		keys[i] = n.UUID
	}
	reported, b := map[uuid.UUID]bool{}, &pgx.Batch{}
	observed.QueueNodeReports(b, keys, func(h observed.NodeReport) { reported[h.Node] = true })
	return reported, q.SendBatch(ctx, b).Close()
}

// addAllocations adds the live allocations on the touched nodes and SKUs, and the balances of their
// tenants.
func (g Gatherer) addAllocations(ctx context.Context, q pg.Queryer, t preview.Touched, f *preview.Inputs) error {
	list, err := g.Allocations.LiveAllocations(ctx, q, t.Nodes, t.SKUs)
	if err != nil {
		return err
	}
	tenants := make([]ids.Tenant, len(list))
	for i, a := range list {
		tenants[i] = a.Tenant
		f.Allocations = append(f.Allocations, preview.Allocation(a))
	}
	names, err := g.Identity.TenantNames(ctx, q, tenants)
	if err != nil {
		return err
	}
	balances, err := g.Ledger.Balances(ctx, q, tenants)
	if err != nil {
		return err
	}
	burns, err := g.Metering.BurnsOf(ctx, q, tenants)
	for id, name := range names {
		f.Tenants = append(f.Tenants, preview.Tenant{ID: id, Name: name, Currency: balances[id].Currency, Balance: balances[id].Minor, Burn: burns[id]})
	}
	return err
}
