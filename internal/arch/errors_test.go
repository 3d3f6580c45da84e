package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// uncoded are the places that may answer or fail without a code, by file and
// function, and why.
var uncoded = map[string]string{
	"api/rest/middleware/observe.go recover":          "after a panic nothing is known but that it is our fault",
	"api/rest/bare/bare.go Portal":                    "no server has it: tests measure the layout of the portal with it",
	"api/rest/server.go NewWith":                      "a fault of the wiring: the process does not start",
	"api/rest/request/operation.go OperationsOf":      "a fault of the contract or of the roles: the process does not start",
	"platform/identity/oidc/oidctest/issuer.go serve": "simulates an unreachable provider, only in tests",
	"api/s3/fault/fault.go status":                    "S3 has codes and statuses of its own; api/s3/errors.go maps ours to them",
	"api/s3/fault/fault.go Status":                    "as above",
	"api/s3/patient.go refusals":                      "replaces the errors of http.ServeContent",
	"api/stream/client.go errSlow":                    "ends a stream without a reader; no response is sent",
	"api/stream/client.go errFailed":                  "ends a stream; the status has been sent",
}

// apis are the packages that respond to users, service accounts and nodes.
var apis = []string{"api/rest", "api/nodeapi", "api/stream"}

// TestAnswersAreCoded is CI-03: every error response has a code of the catalogue, and one function
// per API maps codes to status numbers.
func TestAnswersAreCoded(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, f := range sources(t) {
		if f.test || underAny(f.pkg, []string{"api/oapi"}) || !underAny(f.pkg, []string{"api", "platform", "product"}) {
			continue
		}
		for place, faults := range answers(f) {
			used[place] = true
			if uncoded[place] == "" {
				t.Errorf("%s: %s", place, strings.Join(faults, "; "))
			}
		}
	}
	for place := range uncoded {
		if !used[place] {
			t.Errorf("%q is excused in errors_test.go and does nothing wrong: remove the excuse", place)
		}
	}
}

// answers returns what a file does to answer or fail on its own, by place.
func answers(f file) map[string][]string {
	faults := map[string][]string{}
	for _, d := range f.syntax.Decls {
		name := declared(d)
		if name == "" {
			continue
		}
		note := func(what string, args ...any) {
			place := f.path + " " + name
			faults[place] = append(faults[place], fmt.Sprintf(what, args...))
		}
		read := compared(d)
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				checkCall(f, n, note)
			case *ast.SelectorExpr:
				if status := qualified(n); isFailure(status) && !read[n] && path.Base(f.path) != "problem.go" {
					note("%s: return a coded error of internal/errs, and let problem.go find the number", status)
				}
			}
			return true
		})
	}
	return faults
}

// declared is the name of a function, or of the first variable.
func declared(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				return v.Names[0].Name
			}
		}
	}
	return ""
}

// compared returns the numbers that are only compared and not sent.
func compared(d ast.Decl) map[ast.Node]bool {
	seen := map[ast.Node]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			seen[n.X], seen[n.Y] = true, true
		case *ast.CaseClause:
			for _, e := range n.List {
				seen[e] = true
			}
		}
		return true
	})
	return seen
}

var (
	// Each answers with the number that it is given.
	answering = []string{"AbortWithStatus", "AbortWithStatusJSON", "AbortWithError", "Status", "JSON", "IndentedJSON", "String", "HTML", "Data", "XML", "YAML", "Redirect", "WriteHeader"}
	// These answer without our envelope, whatever they are given.
	bare = []string{"http.Error", "http.NotFound"}
)

func checkCall(f file, call *ast.CallExpr, note func(string, ...any)) {
	callee, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	name := qualified(callee)
	switch {
	case slices.Contains(bare, name), strings.HasPrefix(callee.Sel.Name, "AbortWith"):
		note("%s answers without the envelope: return a coded error", name)
	case name == "errors.New" && underAny(f.pkg, apis):
		note("errors.New has no code: errs.New, with a sentence for people")
	case name == "fmt.Errorf" && underAny(f.pkg, apis) && !strings.Contains(literal(call.Args[0]), "%w"):
		note("fmt.Errorf without %%w loses the code: errs.New, or wrap the cause")
	case slices.Contains(answering, callee.Sel.Name) && len(call.Args) > 0:
		if n, err := strconv.Atoi(literal(call.Args[0])); err == nil {
			note("%s(%d): a status is written by its name", callee.Sel.Name, n)
		}
	}
}

// qualified is a selector as it is written: http.StatusOK, c.JSON.
func qualified(s *ast.SelectorExpr) string {
	if x, ok := s.X.(*ast.Ident); ok {
		return x.Name + "." + s.Sel.Name
	}
	return "…." + s.Sel.Name
}

func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	if lit.Kind == token.STRING {
		text, _ := strconv.Unquote(lit.Value)
		return text
	}
	return lit.Value
}

// isFailure reports whether a name of net/http is a status of 400 and above. Unknown names count as
// failures.
func isFailure(name string) bool {
	word, found := strings.CutPrefix(name, "http.Status")
	if !found || word == "Text" {
		return false
	}
	for n := http.StatusContinue; n < http.StatusBadRequest; n++ {
		if text := strings.ReplaceAll(strings.ReplaceAll(http.StatusText(n), " ", ""), "-", ""); text != "" && strings.HasPrefix(text, word) {
			return false
		}
	}
	return true
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`http.Error(w, "no", 404)`:                         "http.Error answers",
		`http.NotFound(w, r)`:                              "http.NotFound answers",
		`c.AbortWithStatus(404)`:                           "c.AbortWithStatus answers",
		`c.JSON(418, nil)`:                                 "JSON(418)",
		`w.WriteHeader(500)`:                               "WriteHeader(500)",
		`w.WriteHeader(http.StatusTeapot)`:                 "http.StatusTeapot",
		`s.reject(c, http.StatusConflict, nil)`:            "http.StatusConflict",
		`return errors.New("no")`:                          "errors.New has no code",
		`return fmt.Errorf("no %s", x)`:                    "without %w",
		`return fmt.Errorf("doing this: %w", err)`:         "",
		`c.Data(http.StatusOK, "text/html", page)`:         "",
		`c.Redirect(http.StatusSeeOther, "/")`:             "",
		`if status >= http.StatusInternalServerError { }`:  "",
		`switch status { case http.StatusUnauthorized: }`:  "",
		`return errs.New(errs.NotFound, "does not exist")`: "",
		`w.WriteHeader(http.StatusNoContent); c.String(x)`: "",
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			syntax, err := parser.ParseFile(token.NewFileSet(), "x.go", "package rest\nfunc f() error {\n"+body+"\n}", parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(answers(file{path: "api/rest/x.go", pkg: "api/rest", syntax: syntax})["api/rest/x.go f"], "; ")
			if (want == "") != (got == "") || !strings.Contains(got, want) {
				t.Errorf("found %q, want %q", got, want)
			}
		})
	}
}
