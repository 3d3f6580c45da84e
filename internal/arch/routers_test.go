package arch

import (
	"go/ast"
	"slices"
	"testing"
)

// untraced are the routers that may do without, and why, by file and function.
var untraced = map[string]string{
	"api/rest/bare/bare.go Handler": "it is what the trace and the rest are measured against",
	"api/rest/bare/bare.go Portal":  "tests measure the layout of the portal with it",
	"agent/status.go serveStatus":   "it serves the local socket, and calls no server",
}

// TestRoutersAreTraced is CI-06: a function that creates a router also wraps it with the trace and
// the correlation id, so that no router is without them.
func TestRoutersAreTraced(t *testing.T) {
	t.Parallel()
	routers := 0
	used := map[string]bool{}
	for _, f := range sources(t) {
		if f.test || underAny(f.pkg, []string{"e2e"}) {
			continue
		}
		for _, d := range f.syntax.Decls {
			made, traced := false, false
			ast.Inspect(d, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					made = made || slices.Contains([]string{"http.NewServeMux", "gin.New", "gin.Default"}, qualified(s))
					traced = traced || slices.Contains([]string{"otelgin.Middleware", "telemetry.Traced"}, qualified(s))
				}
				return true
			})
			if !made {
				continue
			}
			routers++
			place := f.path + " " + declared(d)
			if used[place] = !traced; !traced && untraced[place] == "" {
				t.Errorf("%s makes a router without a trace: wrap it in telemetry.Traced", place)
			}
		}
	}
	for place := range untraced {
		if !used[place] {
			t.Errorf("%q is excused in routers_test.go and is traced: remove the excuse", place)
		}
	}
	if routers < 3 {
		t.Errorf("only %d routers found: the API, the node API and the metrics have one each", routers)
	}
}
