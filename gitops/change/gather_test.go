package change_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/product/nodehealth"
)

// gathererOf reads with the rights of one role.
func gathererOf(db pg.Pool) change.Gatherer {
	return change.Gatherer{
		Desired:  &desired.Store{DB: db, Hints: &hint.Bus{}},
		Policies: &policies.Client{DB: db, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler)}, Identity: &identity.Service{DB: db, Clock: clock.Clock{}},
		Catalog: &catalog.Service{DB: db}, Ledger: &ledger.Service{DB: db}, Metering: &metering.Service{DB: db}, Fleet: nodehealth.New(db, nil).Service,
		Allocations: &allocation.Service{DB: db},
	}
}

// INV-61: the API and the loop read the same data for a preview, each with the rights of its own
// database role.
func TestINV61GatherUnderBothRoles(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, 100_000)
	one, two := w.Node(t, "node-1", 4), w.Node(t, "node-2", 2)
	active := w.Active(t, 2)
	requested := w.Request(t, 1)
	w.Releasing(t, 1)
	if _, err := w.DB.Exec(t.Context(), `INSERT INTO observed_nodes (node_id, boot, boot_id, sequence, complete, agent, capability, inventory, content_hash, observed_at, stale_at)
		VALUES ($1, 1, 'b', 1, true, '1', 1, '{}', 'x', now(), now())`, one); err != nil {
		t.Fatal(err)
	}
	scopes := []policies.Scope{
		policies.Platform, "region:r", "sku:none", "node:none", "tenant:none", "project:none", "user:none",
		policies.In(policies.LevelTenant, w.Caller.Tenant.String()), policies.In(policies.LevelProject, strings.ToUpper(w.Caller.Project.String())),
		policies.In(policies.LevelUser, w.Caller.User.String()), policies.In(policies.LevelUser, w.Caller.Tenant.String()),
	}
	touched := preview.Touched{Nodes: []ids.Node{one, two}, SKUs: []string{allocationtest.SKU}, Caps: true, Scopes: scopes}
	api := pgtest.Scoped(t, w.DB)
	everyones := pg.WithScope(t.Context(), w.Operator.Scope(true))
	f, err := gathererOf(api).Gather(everyones, api, touched)
	if err != nil {
		t.Fatal(err)
	}
	reconcile := pgtest.As(t, w.DB, "gpuaas_reconcile")
	again, err := gathererOf(reconcile).Gather(t.Context(), reconcile, touched)
	if err != nil || !reflect.DeepEqual(sorted(again), sorted(f)) {
		t.Errorf("the API sees\n%+v\nthe loop sees\n%+v, %v", f, again, err)
	}

	if want := map[policies.Scope]policies.Scope{scopes[0]: scopes[0], scopes[1]: scopes[1], scopes[7]: scopes[7], scopes[8]: policies.In(policies.LevelProject, w.Caller.Project.String()), scopes[9]: scopes[9]}; !maps.Equal(f.Subjects, want) {
		t.Errorf("scopes name %v, want %v", f.Subjects, want)
	}
	nodes := map[string]preview.Node{}
	for _, n := range f.Nodes {
		nodes[n.Name] = n
	}
	if n := nodes["node-1"]; n.ID != one || n.SKU != allocationtest.SKU || !n.Reported || nodes["node-2"].Reported || n.Held+nodes["node-2"].Held != 4 {
		t.Errorf("%+v", f.Nodes)
	}
	if f.Fleet != 2 || f.Stock[allocationtest.SKU] != (preview.Stock{Sold: 3, Open: 3}) || f.Burn["EUR"] != 2*allocationtest.Price {
		t.Errorf("%d nodes, %+v, burn %v", f.Fleet, f.Stock, f.Burn)
	}
	if want := (preview.Price{Currency: "EUR", Minor: allocationtest.Price, Active: true}); f.Prices[allocationtest.SKU] != want {
		t.Errorf("%+v", f.Prices)
	}
	charged := map[ids.Allocation]bool{}
	for _, a := range f.Allocations {
		charged[a.ID] = a.Charged
	}
	if len(f.Allocations) != 3 || !charged[active.ID] || charged[requested.ID] {
		t.Errorf("%+v", f.Allocations)
	}
	if len(f.Tenants) != 1 || f.Tenants[0].Name == "" || f.Tenants[0].Balance != 100_000 || f.Tenants[0].Currency != "EUR" || f.Tenants[0].Burn != 2*allocationtest.Price {
		t.Errorf("%+v", f.Tenants)
	}
	if len(f.Holders) != 1 || f.Holders[0].Count != 3 || f.Holders[0].TenantName == "" || f.Holders[0].ProjectName == "" {
		t.Errorf("%+v", f.Holders)
	}

	// Without the platform's scope only the caller's own tenant is visible, or none.
	if none, err := gathererOf(api).Gather(t.Context(), api, touched); err != nil || len(none.Allocations)+len(none.Tenants)+len(none.Holders) != 0 {
		t.Errorf("without a scope: %+v, %v", none, err)
	}
}

// sorted counts equal inputs, because their sequence is not defined.
func sorted(f preview.Inputs) map[string]int {
	seen := map[string]int{}
	note := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		seen[string(text)]++
	}
	for _, n := range f.Nodes {
		note(n)
	}
	for _, a := range f.Allocations {
		note(a)
	}
	for _, t := range f.Tenants {
		note(t)
	}
	for _, h := range f.Holders {
		note(h)
	}
	note([]any{f.Fleet, f.Prices, f.Stock, f.Burn})
	return seen
}

// The effect in a plan of a new price equals the effect of applying it.
func TestThePlanOfAPriceComesTrue(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, 100_000)
	w.Node(t, "node-1", 6)
	w.Active(t, 2)
	w.Request(t, 1)
	w.Releasing(t, 1)
	facts := func() preview.Inputs {
		f, err := gathererOf(w.DB).Gather(t.Context(), w.DB, preview.Touched{SKUs: []string{allocationtest.SKU}})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	object := func(price int64) desired.Object {
		spec, err := json.Marshal(desired.SKU{DisplayName: "H100", MaxGPUs: 8, Active: true, Price: desired.Price{Currency: "EUR", AmountMinor: price}})
		if err != nil {
			t.Fatal(err)
		}
		return desired.Object{Kind: desired.KindSKU, Name: allocationtest.SKU, Spec: spec, SpecHash: desired.Hash(spec)}
	}
	const price = 333
	p := preview.Make(preview.Change{Diff: revision.Difference{Changed: []revision.Pair{{Old: object(allocationtest.Price), New: object(price)}}}}, facts(), preview.Rules{})
	w.Do(t, func(tx pgx.Tx) error { return w.Allocations.Reprice(t.Context(), tx, allocationtest.SKU, "EUR", price) })
	if now := facts(); len(p.Money) != 1 || p.Money[0].BurnAfter != now.Burn["EUR"] || p.Money[0].Tenants[0].BurnAfter != now.Tenants[0].Burn || now.Burn["EUR"] != money.Minor(2*price) {
		t.Errorf("planned %+v, and it is %v", p.Money, now.Burn)
	}
}
