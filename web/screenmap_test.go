package web_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/policies"
)

// screen is an entry of screens.yaml. Everything but its subjects is computed from the code.
type screen struct {
	Route, File, Example                string
	Roles, Operations, Subjects, States []string

	gates []string // operations that the code checks with may
}

// screenMap is screens.yaml.
type screenMap struct {
	Screens []screen
	// Shell has the operations of every screen.
	Shell []string
	// Viewer has the changes that a viewer of a tenant and of a project may do.
	Viewer []string
	// WithoutScreen has the reason by operation.
	WithoutScreen map[string]string `yaml:"without_screen"`
}

func storedMap(t *testing.T) (m screenMap) {
	t.Helper()
	text, err := os.ReadFile("screens.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// entry is the text of a screen in screens.yaml.
func (s screen) entry() string {
	list := func(all []string) string { return "[" + strings.Join(all, ", ") + "]" }
	return fmt.Sprintf("  - route: %s\n    file: %s\n    example: %s\n    roles: %s\n    operations: %s\n    subjects: %s\n    states: %s\n",
		s.Route, s.File, s.Example, list(s.Roles), list(s.Operations), list(s.Subjects), list(s.States))
}

var (
	routePattern  = regexp.MustCompile(`(?s)path: "(/[^"]*)".*?import\("\.\./screens/([^"]+)"\)`)
	importPattern = regexp.MustCompile(`(?:from |import\()"(\.[^"]+)"`)
	callPattern   = regexp.MustCompile(`api\.(GET|POST|PUT|PATCH|DELETE)\(\s*"([^"]+)"`)
	linkPattern   = regexp.MustCompile("[\"`](/api/v[0-9][^\"`?]*)")
	gatePattern   = regexp.MustCompile(`\b(?:may|mayDo|projectsWith)\("([A-Za-z]+)"`)
	emptyPattern  = regexp.MustCompile(`<Empty\b`)
	partPattern   = regexp.MustCompile(`\$?\{[^}]*\}`)
	namePattern   = regexp.MustCompile(`\$[A-Za-z]+`)
)

// codeMap computes the map of the screens from the router and the screens.
func codeMap(t *testing.T) (all []screen) {
	t.Helper()
	routers, err := filepath.Glob("src/routes/*.ts*")
	if err != nil {
		t.Fatal(err)
	}
	byCall := operationsByCall(t)
	for _, router := range routers {
		for _, m := range routePattern.FindAllStringSubmatch(read(t, router), -1) {
			all = append(all, screenOf(t, m[1], m[2], byCall))
		}
	}
	slices.SortFunc(all, func(a, b screen) int { return cmp.Compare(a.Route, b.Route) })
	return all
}

func screenOf(t *testing.T, route, file string, byCall map[string]string) screen {
	t.Helper()
	code := closure(t, filepath.Join("src/screens", file))
	// A letter is a value of every parameter of a path.
	s := screen{Route: route, File: file, Example: namePattern.ReplaceAllStringFunc(route, func(name string) string { return name[1:2] })}
	add := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	for _, m := range callPattern.FindAllStringSubmatch(code, -1) {
		add(&s.Operations, cmp.Or(byCall[m[1]+" "+partPattern.ReplaceAllString(m[2], "{}")], "UNKNOWN "+m[1]+" "+m[2]))
	}
	for _, m := range linkPattern.FindAllStringSubmatch(callPattern.ReplaceAllString(code, ""), -1) {
		add(&s.Operations, cmp.Or(byCall["GET "+partPattern.ReplaceAllString(m[1], "{}")], "UNKNOWN GET "+m[1]))
	}
	for _, m := range gatePattern.FindAllStringSubmatch(code, -1) {
		add(&s.gates, m[1])
	}
	s.States = []string{"loading", "error", "success", "restricted", "rate_limited"}
	if emptyPattern.MatchString(code) {
		s.States = append(s.States, "empty")
	}
	if len(s.Operations) > 0 {
		s.Roles = openers(s.Operations[0])
	}
	return s
}

// closure is the code of a screen with all parts of screens that it imports. The screen is its beginning.
func closure(t *testing.T, root string) string {
	t.Helper()
	var code strings.Builder
	done := map[string]bool{}
	for queue := []string{root}; len(queue) > 0; queue = queue[1:] {
		file := fileOf(queue[0])
		if file == "" || done[file] {
			continue
		}
		done[file] = true
		text := read(t, file)
		code.WriteString(text)
		for _, m := range importPattern.FindAllStringSubmatch(text, -1) {
			if next := filepath.Join(filepath.Dir(file), m[1]); strings.HasPrefix(next, "src/screens/") {
				queue = append(queue, next)
			}
		}
	}
	return code.String()
}

func fileOf(module string) string {
	for _, ending := range []string{".tsx", ".ts", "/index.tsx"} {
		if _, err := os.Stat(module + ending); err == nil {
			return module + ending
		}
	}
	return ""
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// operationsByCall maps the method and the path, with {} for each parameter, to the operation.
func operationsByCall(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, op := range contract(t) {
		all[op.Method+" "+partPattern.ReplaceAllString(op.Path, "{}")] = op.OperationID
	}
	return all
}

func contract(t *testing.T) []openapi.Operation {
	t.Helper()
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	return openapi.Operations(doc)
}

// openers are the roles that a screen is for: those of its first operation. A role of the platform has the screens of
// operators, and opens those of a tenant with its role in it.
func openers(operation string) (names []string) {
	if policies.Allows("user", operation) {
		return []string{"user"}
	}
	for _, scopes := range [][]string{{"tenant", "project"}, {"platform"}} {
		for _, r := range policies.Roles() {
			if slices.Contains(scopes, r.Scope) && policies.Covered(operation) && policies.Allows(r.Name, operation) {
				names = append(names, r.Name)
			}
		}
		if len(names) > 0 {
			break
		}
	}
	slices.Sort(names)
	return names
}
