package arch

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/failpoint"
)

// hits maps each failpoint that the code hits to where.
func hits(t *testing.T) map[string]string {
	t.Helper()
	files := slices.DeleteFunc(sources(t), func(f file) bool { return f.test })
	said := map[string][]string{} // the literals of each package, and of those that import it
	for _, f := range files {
		for _, pkg := range append([]string{module + "/" + f.pkg}, f.imports...) {
			said[pkg] = append(said[pkg], literals(f.syntax)...)
		}
	}
	found := map[string]string{}
	for _, f := range files {
		if !slices.Contains(f.imports, module+"/internal/failpoint") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isHit(call.Fun) {
				for _, name := range names(t, f, call.Args[0], said[module+"/"+f.pkg]) {
					found[name] = f.path
				}
			}
			return true
		})
	}
	return found
}

// names resolves a literal, or a sum of literals with one variable. The variable may then be any literal
// that makes a known failpoint and is in the same package or in one that imports it:
// "job." + point + ".after_commit" if a caller passes "ensure".
func names(t *testing.T, f file, arg ast.Expr, said []string) (found []string) {
	t.Helper()
	before, after, whole := around(arg)
	if whole {
		return []string{before}
	}
	if before == "" && after == "" {
		t.Errorf("%s: failpoint.Hit needs a literal name, or a part of one, so that it can be found", f.path)
	}
	for _, point := range failpoint.Points {
		hole, hasBefore := strings.CutPrefix(point, before)
		hole, hasAfter := strings.CutSuffix(hole, after)
		if hasBefore && hasAfter && slices.Contains(said, hole) {
			found = append(found, point)
		}
	}
	return found
}

// around returns the text before and after the variable part, or all of it.
func around(e ast.Expr) (before, after string, whole bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, "", err == nil
	case *ast.BinaryExpr:
		leftBefore, leftAfter, leftWhole := around(e.X)
		rightBefore, rightAfter, rightWhole := around(e.Y)
		switch {
		case leftWhole && rightWhole:
			return leftBefore + rightBefore, "", true
		case leftWhole:
			return leftBefore + rightBefore, rightAfter, false
		case rightWhole:
			return leftBefore, leftAfter + rightBefore, false
		}
	}
	return "", "", false
}

func isHit(fun ast.Expr) bool {
	selector, ok := fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Hit" {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	return ok && pkg.Name == "failpoint"
}

func TestEveryHitIsAListedFailpoint(t *testing.T) {
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
