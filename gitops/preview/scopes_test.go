package preview_test

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/policies"
)

// A limit for a tenant that does not exist, or that was renamed, would limit no tenant or another one.
func TestScopesThatNameNothingAreFindings(t *testing.T) {
	t.Parallel()
	const key = "billing.hourly_spend_limit_minor"
	in := inputs()
	in.Applied = map[policies.Scope]policies.Scope{"tenant:former": byID(acme), "tenant:umbrella": byID(acme)}
	limit := func(scope string) revision.Difference {
		return revision.Difference{Created: []desired.Object{policy("p", 3, key, scope, 1)}}
	}
	for name, c := range map[string]struct {
		diff revision.Difference
		want string // part of the finding; empty: none
	}{
		"an existing tenant":           {limit("tenant:acme"), ""},
		"its id":                       {limit(string(byID(acme))), ""},
		"no tenant":                    {limit("tenant:absent"), `"tenant:absent" names nothing`},
		"a tenant that was renamed":    {limit("tenant:former"), "has another name now"},
		"a name with another owner":    {limit("tenant:umbrella"), "has another name now"},
		"no SKU":                       {limit("sku:h200"), "names nothing"},
		"an SKU of the same change":    {revision.Difference{Created: []desired.Object{sku("h200", 4, 1), policy("p", 3, key, "sku:h200", 1)}}, ""},
		"the object moves to no scope": {revision.Difference{Changed: []revision.Pair{pair(policy("p", 3, key, "tenant:acme", 1), policy("p", 3, key, "tenant:absent", 1))}}, "names nothing"},
		"a deletion":                   {revision.Difference{Deleted: []desired.Object{policy("p", 3, key, "tenant:absent", 1)}}, ""},
	} {
		p := preview.Make(change(c.diff), in, rules())
		switch {
		case c.want == "" && len(p.Findings) > 0:
			t.Errorf("%s: %+v", name, p.Findings)
		case c.want != "" && (len(p.Findings) != 1 || !strings.Contains(p.Findings[0].Message, c.want) || p.Findings[0].Field != "spec.scope" || p.Findings[0].Line != 3):
			t.Errorf("%s: %+v", name, p.Findings)
		}
	}
}
