package server

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/policies"
)

// world gathers from the rooms what a change touches: each is asked once, whatever
// the size of the change.
type world struct {
	*set
	policies *policies.Client
}

// Facts are what is so of it, as q sees it.
func (w world) Facts(ctx context.Context, q pg.Queryer, t preview.Touched) (f preview.Facts, err error) {
	if t.Caps {
		err = w.holders(ctx, q, &f)
	}
	if err == nil && len(t.Nodes)+len(t.SKUs) > 0 {
		err = w.fleet(ctx, q, t, &f)
	}
	if err == nil && len(t.Nodes)+len(t.SKUs) > 0 {
		err = w.standing(ctx, q, t, &f)
	}
	return f, err
}

// holders are counted where a cap changes.
func (w world) holders(ctx context.Context, q pg.Queryer, f *preview.Facts) (err error) {
	if f.Policies, err = w.policies.Snapshot(ctx); err != nil {
		return err
	}
	list, err := w.allocations.Holdings(ctx, q)
	if err != nil {
		return err
	}
	tenants, projects := make([]ids.Tenant, len(list)), make([]ids.Project, len(list))
	for i, h := range list {
		tenants[i], projects[i] = h.Tenant, h.Project
	}
	names, err := w.identity.TenantNames(ctx, q, tenants)
	if err != nil {
		return err
	}
	projectNames, err := w.identity.ProjectNames(ctx, q, projects)
	for _, h := range list {
		f.Holders = append(f.Holders, preview.Holder{
			Tenant: h.Tenant, TenantName: names[h.Tenant], Project: h.Project, ProjectName: projectNames[h.Project], User: h.User, Count: h.Count,
		})
	}
	return err
}

// fleet is what there is to sell, and for how much.
func (w world) fleet(ctx context.Context, q pg.Queryer, t preview.Touched, f *preview.Facts) error {
	seen, err := reported(ctx, q, t.Nodes)
	if err != nil {
		return err
	}
	nodes, err := w.inventory.NodeSummaries(ctx, q, t.Nodes)
	for _, n := range nodes {
		f.Nodes = append(f.Nodes, preview.Node{
			ID: n.ID, Name: n.Name, SKU: n.SKU, Cordoned: n.Cordoned, Stock: preview.Stock(n.Stock), Held: n.Held, Seen: seen[n.ID.UUID],
		})
	}
	if err != nil {
		return err
	}
	stock, fleet, err := w.inventory.Stock(ctx, q)
	if err != nil {
		return err
	}
	f.Fleet, f.Stock = fleet, make(map[string]preview.Stock, len(stock))
	for sku, n := range stock {
		f.Stock[sku] = preview.Stock(n)
	}
	skus, err := w.catalog.All(ctx, q)
	f.Prices = make(map[string]preview.Price, len(skus))
	for _, s := range skus {
		f.Prices[s.Name] = preview.Price{Currency: s.Currency, Minor: s.PriceMinor, Active: s.Active}
	}
	if err != nil {
		return err
	}
	f.Burn, err = w.metering.AllBurns(ctx, q)
	return err
}

// reported are the nodes whose agents have been heard of.
func reported(ctx context.Context, q pg.Queryer, nodes []ids.Node) (map[uuid.UUID]bool, error) {
	keys := make([]uuid.UUID, len(nodes))
	for i, n := range nodes {
		keys[i] = n.UUID
	}
	seen, b := map[uuid.UUID]bool{}, &pgx.Batch{}
	observed.QueueHeard(b, keys, func(h observed.Heard) { seen[h.Node] = true })
	return seen, q.SendBatch(ctx, b).Close()
}

// standing is who lives on it, and what they have.
func (w world) standing(ctx context.Context, q pg.Queryer, t preview.Touched, f *preview.Facts) error {
	list, err := w.allocations.Standing(ctx, q, t.Nodes, t.SKUs)
	if err != nil {
		return err
	}
	tenants := make([]ids.Tenant, len(list))
	for i, a := range list {
		tenants[i] = a.Tenant
		f.Allocations = append(f.Allocations, preview.Allocation(a))
	}
	names, err := w.identity.TenantNames(ctx, q, tenants)
	if err != nil {
		return err
	}
	balances, err := w.ledger.Balances(ctx, q, tenants)
	if err != nil {
		return err
	}
	burns, err := w.metering.BurnsOf(ctx, q, tenants)
	for id, name := range names {
		f.Tenants = append(f.Tenants, preview.Tenant{ID: id, Name: name, Currency: balances[id].Currency, Balance: balances[id].Minor, Burn: burns[id]})
	}
	return err
}
