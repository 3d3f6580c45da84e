package rest_test

import (
	"encoding/json"
	"testing"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// A request that waits says why, and what would let it through; the fleet's hosts
// are named to those who keep it.
func TestWhatWaitsSaysWhy(t *testing.T) {
	t.Parallel()

	b := setup(t)
	a := allocation.Allocation{
		ID: ids.New[ids.Allocation](), Tenant: b.people.tenant, Project: b.people.project, SKU: h100.Name, GPUs: 8, State: allocation.Requested,
		Currency: "EUR", Version: 1, CreatedAt: t0, StatusAt: t0,
	}
	b.rooms.all[a.ID] = a
	for token, want := range map[string]string{tokenOwner: "fits if a node is uncordoned", tokenAdmin: "fits if node n7 is uncordoned"} {
		w := b.do(t, ask{method: "GET", path: "/api/v1/allocations/" + a.ID.String(), token: token, header: map[string]string{"If-None-Match": `"1"`}})
		var shown oapi.Allocation
		if err := json.Unmarshal(w.Body.Bytes(), &shown); err != nil || w.Code != 200 || shown.Pending == nil {
			t.Fatalf("%s: %d %s", token, w.Code, w.Body)
		}
		p := shown.Pending
		if p.Suggestions[0].Text != want || p.Filters[0].Nodes != 1 || *p.Position != 2 || !p.StartedAt.Equal(t0) {
			t.Errorf("%s: %+v", token, p)
		}
		if c := shown.Conditions[0]; c.Type != "Ready" || c.Reason != "Queued" {
			t.Errorf("%s: %+v", token, c)
		}
	}
	if w := b.do(t, ask{method: "POST", path: "/api/v1/allocations", token: tokenOwner, body: `{"sku":"h100-sxm","queue":true}`}); w.Code != 201 || !b.rooms.queued {
		t.Errorf("%d %s, queued %v", w.Code, w.Body, b.rooms.queued)
	}
}
