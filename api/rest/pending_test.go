package rest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// A queued request names the reason, and the changes that would allow it. Only operators read the names of nodes.
func TestWhatWaitsSaysWhy(t *testing.T) {
	t.Parallel()

	b := setup(t)
	w := b.do(t, call{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"a100","gpus":8,"queue":true}`})
	var made oapi.Allocation
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != 201 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if made.NodeId != nil || !strings.Contains(w.Body.String(), `"node_id":null`) {
		t.Errorf("a node before there is one: %s", w.Body)
	}
	for token, want := range map[string]string{tokenOwner: "fits if a node is uncordoned", tokenAdmin: "fits if node n7 is uncordoned"} {
		w := b.do(t, call{method: "GET", path: allocations + "/" + made.Id.String(), token: token, header: map[string]string{"If-None-Match": `"1"`}})
		var shown oapi.Allocation
		if err := json.Unmarshal(w.Body.Bytes(), &shown); err != nil || w.Code != 200 || shown.Pending == nil {
			t.Fatalf("%s: %d %s", token, w.Code, w.Body)
		}
		p := shown.Pending
		if len(p.Suggestions) == 0 || !strings.Contains(p.Suggestions[0].Text, want) || len(p.Filters) == 0 || p.Filters[0].Nodes != 1 || *p.Position != 1 || !p.StartedAt.Equal(shown.CreatedAt) {
			t.Errorf("%s: %s", token, w.Body)
		}
		if c := shown.Conditions[0]; c.Type != "Ready" || c.Reason != "Queued" {
			t.Errorf("%s: %+v", token, c)
		}
	}
}
