package portal_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaas/policies"
)

// TestOfferedActionsAreAllowed is AT-107: the portal offers an action to the roles of tenants and projects that have
// the operation, and to no other.
func TestOfferedActionsAreAllowed(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../../../web/src/session/roles.json")
	if err != nil {
		t.Fatal(err)
	}
	var offered map[string][]string
	if err := json.Unmarshal(text, &offered); err != nil {
		t.Fatal(err)
	}
	if len(offered) < 5 {
		t.Errorf("only %d actions", len(offered))
	}
	for operation, got := range offered {
		var want []string
		for _, r := range policies.Roles() {
			if (r.Scope == "tenant" || r.Scope == "project") && slices.Contains(r.Operations, operation) {
				want = append(want, r.Name)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s is offered to %v, and policies/roles.cue allows it to %v", operation, got, want)
		}
	}
}
