package nodeapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestRoutesAreTheProtocols: the node API serves what protocol names, and nothing else
// but that there is nothing.
func TestRoutesAreTheProtocols(t *testing.T) {
	t.Parallel()

	served := map[string]bool{}
	for pattern := range (&Server{}).routes() {
		_, path, _ := strings.Cut(pattern, " ")
		served[strings.NewReplacer("{node}", "%s", "{task}", "%s", "{allocation}", "%s", "{platform}", "%s", "{digest}", "%s").Replace(path)] = true
	}
	named := protocolPaths(t)
	for path := range named {
		if !served[path] {
			t.Errorf("%s is named in protocol and not served", path)
		}
		delete(served, path)
	}
	for path := range served {
		t.Errorf("%s is served and not named in protocol", path)
	}
}

// protocolPaths are the values of the constants that agents call.
func protocolPaths(t *testing.T) map[string]bool {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), "../../protocol/protocol.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	ast.Inspect(syntax, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(v.Names[0].Name, "Path") {
			return true
		}
		path, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		paths[path] = true
		return true
	})
	if len(paths) < 5 {
		t.Fatalf("only %d paths in protocol: this test reads the wrong package", len(paths))
	}
	return paths
}
