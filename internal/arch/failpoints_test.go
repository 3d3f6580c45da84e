package arch

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/gpuaas/gpuaas/internal/failpoint"
)

// hits maps each failpoint that the code hits to where.
func hits(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, f := range sources(t) {
		if f.test || !slices.Contains(f.imports, module+"/internal/failpoint") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isHit(call.Fun) {
				return true
			}
			lit, ok := call.Args[0].(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				t.Errorf("%s: failpoint.Hit takes a literal name, so that it can be found", f.path)
				return true
			}
			name, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[name] = f.path
			return true
		})
	}
	return found
}

func isHit(fun ast.Expr) bool {
	selector, ok := fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Hit" {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	return ok && pkg.Name == "failpoint"
}

func TestEveryHitIsAKnownFailpoint(t *testing.T) {
	t.Parallel()
	for name, path := range hits(t) {
		if !slices.Contains(failpoint.Points, name) {
			t.Errorf("%s hits %q, which failpoint.Points does not list: no fault test would reach it", path, name)
		}
	}
}

func TestEveryFailpointIsHit(t *testing.T) {
	t.Parallel()
	found := hits(t)
	for _, name := range failpoint.Points {
		if found[name] == "" {
			t.Errorf("failpoint.Points lists %q, which nothing hits: a fault test of it proves nothing", name)
		}
	}
}
