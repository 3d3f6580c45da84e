package desired

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"testing"
)

// Each constant is in the catalogue, once, with a meaning and a remedy.
func TestRulesAreComplete(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && len(spec.Values) == 1 {
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
				code, _ := strconv.Unquote(lit.Value)
				declared[code] = true
			}
		}
		return true
	})
	seen := map[string]bool{}
	for _, r := range Rules() {
		if seen[r.Code] || !declared[r.Code] || r.Meaning == "" || r.Remedy == "" || !regexp.MustCompile(`^[a-z][a-z0-9_]+$`).MatchString(r.Code) {
			t.Errorf("rule %+v is repeated, undeclared or empty", r)
		}
		seen[r.Code] = true
	}
	for code := range declared {
		if _, ok := RuleOf(code); !ok {
			t.Errorf("%s has no rule", code)
		}
	}
}
