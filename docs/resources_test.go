package docs

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/desired"
)

const resourceText = `# Resources

Each resource of the API has a URN, ` + "`created_at` and `updated_at`" + `. The URN is
` + "`vendor:service:region:tenant:project:type:id`" + `, with ` + "`-`" + ` for a part that does not apply. Events and audit rows name the
resource by its URN. ` + "`updated_at`" + ` is the time of the last change; a use, such as a request with a key, is no change.
Documents of [desired objects](findings.md) have the URN and the times, ` + "`createdAt` and `updatedAt`" + `, in ` + "`metadata`" + `.

| type in the URN | schemas of the API | created_at, updated_at | events | audit actions |
|---|---|---|---|---|
`

const valuesText = `
## Items without a URN

Items of these lists are no resources. They have neither a URN nor times of their own.

| schema | reason |
|---|---|
`

// references are parts of other resources that name a resource.
var references = []string{"Membership", "StatementTenant", "UserSummary", "DesiredMetadata"}

// valuesOnly are the items of lists that are no resources, with the reason.
var valuesOnly = map[string]string{
	"Capacity":        "a sum over slots, computed for each request",
	"Consumer":        "the state of a program in NATS; its name identifies it",
	"DesiredObject":   "a document that users write and export: `metadata` has its URN and its times",
	"Member":          "the role of a user in a tenant or project: `user_id` names the user, and a role has no time of its own",
	"PolicyKey":       "a definition in the program, without an owner and a time; the objects in `set` are of type `policy`",
	"StatementTotals": "a sum over a month",
	"StorageFault":    "a difference that is computed for each request; the key of its backend object identifies it",
	"StoragePart":     "bytes of an upload in progress; its number identifies it, and it ends with the upload",
	"Usage":           "a sum over intervals, computed for each request",
}

// aboutOther are the audit actions whose resource is of another type than the part before the point.
var aboutOther = map[string]string{
	"notification.read": "user", "suppressed_address.lift": "suppressed-address", "notification.set_preferences": "user", "dead_letter.retry": "dead-letter", "dead_letter.discard": "dead-letter",
	"balance.adjust": "tenant", "billing.set_limits": "tenant", "payment.begin": "payment-session", "payment.charge": "payment-session", "payment.reconcile": "payment-session",
	"payment.customer": "tenant", "payment.portal": "tenant", "payment.refund": "refund", "payment.dispute": "dispute",
	"source.suspend": "git-source", "source.resume": "git-source", "source.ask": "git-source", "release_keys.trust": "keys",
}

// TestResourcesHaveIdentityAndTimes compares the contract with the rules of resources.
func TestResourcesHaveIdentityAndTimes(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	excused := map[string]bool{}
	for name, ref := range doc.Components.Schemas {
		list := ref.Value.Properties["items"]
		if strings.HasSuffix(name, "List") && list != nil {
			item := strings.TrimPrefix(list.Value.Items.Ref, "#/components/schemas/")
			excused[item] = valuesOnly[item] != ""
			if typeOf(list.Value.Items.Value) == "" && valuesOnly[item] == "" {
				t.Errorf("%s is an item of %s: give it an x-urn, or the reason in valuesOnly", item, name)
			}
		}
		for _, fault := range faultsOf(name, ref.Value) {
			t.Errorf("%s %s", name, fault)
		}
	}
	for name := range valuesOnly {
		if !excused[name] {
			t.Errorf("%s is excused in valuesOnly and is no item of a list", name)
		}
	}
}

func faultsOf(name string, s *openapi3.Schema) (faults []string) {
	has := func(field string) bool { return s.Properties[field] != nil }
	if !has("id") && !has("urn") && typeOf(s) == "" {
		return nil
	}
	want := []string{"urn", "created_at", "updated_at"}
	if slices.Contains(references, name) {
		want = want[:1]
	} else if typeOf(s) == "" {
		faults = append(faults, "has an id and no x-urn")
	}
	for _, field := range want {
		if !has(field) || !slices.Contains(s.Required, field) {
			faults = append(faults, "lacks the required field "+field)
		}
	}
	return faults
}

// typeOf returns the type of a resource in URNs, or "" for another schema.
func typeOf(s *openapi3.Schema) string {
	name, _ := s.Extensions["x-urn"].(string)
	return name
}

// TestAResourceWithoutAFieldIsFound breaks a good schema once for each rule.
func TestAResourceWithoutAFieldIsFound(t *testing.T) {
	t.Parallel()
	good := func() *openapi3.Schema {
		s := openapi3.NewObjectSchema().WithRequired([]string{"id", "urn", "created_at", "updated_at"})
		for _, name := range s.Required {
			s.WithProperty(name, openapi3.NewStringSchema())
		}
		s.Extensions = map[string]any{"x-urn": "node"}
		return s
	}
	for what, spoil := range map[string]func(*openapi3.Schema){
		"urn": func(s *openapi3.Schema) { delete(s.Properties, "urn") }, "created_at": func(s *openapi3.Schema) { delete(s.Properties, "created_at") },
		"updated_at": func(s *openapi3.Schema) { s.Required = s.Required[:3] }, "x-urn": func(s *openapi3.Schema) { s.Extensions = nil },
	} {
		s := good()
		spoil(s)
		if faults := faultsOf("Node", s); len(faults) != 1 || !strings.Contains(faults[0], what) {
			t.Errorf("without %s: %v", what, faults)
		}
	}
	if faults := faultsOf("Node", good()); len(faults) != 0 {
		t.Errorf("%v", faults)
	}
}

// TestKindsAreResourceTypes compares the types of desired objects with those of the event about them.
func TestKindsAreResourceTypes(t *testing.T) {
	t.Parallel()
	types := eventTypes(t)["fleet.object_changed"]
	for _, kind := range desired.Kinds() {
		if !slices.Contains(types, kind.ResourceType()) {
			t.Errorf("%s is %s in URNs, and the events name %v", kind, kind.ResourceType(), types)
		}
	}
}

type resource struct{ schemas, events, actions []string }

func resourcePage(t *testing.T) string {
	t.Helper()
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*resource{}
	of := func(name string) *resource {
		if all[name] == nil {
			all[name] = &resource{}
		}
		return all[name]
	}
	for name, ref := range doc.Components.Schemas {
		if kind := typeOf(ref.Value); kind != "" {
			of(kind).schemas = append(of(kind).schemas, name)
		}
	}
	for subject, kinds := range eventTypes(t) {
		for _, kind := range kinds {
			of(kind).events = append(of(kind).events, subject)
		}
	}
	for _, action := range auditActions(t) {
		kind := aboutOther[action]
		if kind == "" {
			prefix, _, _ := strings.Cut(action, ".")
			kind = strings.ReplaceAll(prefix, "_", "-")
		}
		of(kind).actions = append(of(kind).actions, action)
	}
	var b strings.Builder
	b.WriteString(resourceText)
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		r, times := all[kind], "yes"
		if len(r.schemas) == 0 {
			times = "–"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", kind, inCode(r.schemas), times, inCode(r.events), inCode(r.actions))
	}
	b.WriteString(valuesText)
	for _, name := range slices.Sorted(maps.Keys(valuesOnly)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, valuesOnly[name])
	}
	return b.String()
}

func inCode(names []string) string {
	if len(names) == 0 {
		return "–"
	}
	return "`" + strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), "`, `") + "`"
}

// eventTypes returns the types of the resources that each event is about.
func eventTypes(t *testing.T) map[string][]string {
	t.Helper()
	var c struct {
		Channels map[string]struct {
			Address string
			Types   []string `yaml:"x-urn"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "api/asyncapi/asyncapi.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	types := map[string][]string{}
	for name, channel := range c.Channels {
		if types[channel.Address] = channel.Types; len(channel.Types) == 0 && name != "deadLetter" {
			t.Errorf("channel %s has no x-urn", name)
		}
	}
	return types
}

var actionForm = regexp.MustCompile(`^[a-z_]+\.[a-z_]+$`)

// place is a parameter called action, with the text that its function puts before it.
type place struct {
	function string
	at       int
	prefix   string
}

// auditActions collects the actions of audit rows from the code: the values of fields called Action, and the arguments for
// parameters called action.
func auditActions(t *testing.T) []string {
	t.Helper()
	files := goFiles(t)
	var places []place
	eachNode(files, func(n ast.Node) {
		if f, ok := n.(*ast.FuncDecl); ok && f.Body != nil {
			if at := indexOfParameter(f, "action"); at >= 0 {
				places = append(places, place{f.Name.Name, at, prefixOf(f)})
			}
		}
	})
	found := map[string]bool{}
	add := func(prefix string, e ast.Expr) {
		if text := prefix + textIn(e); actionForm.MatchString(text) {
			found[text] = true
		}
	}
	eachNode(files, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Action" {
				add("", n.Value)
			}
		case *ast.AssignStmt:
			if field, ok := n.Lhs[0].(*ast.SelectorExpr); ok && field.Sel.Name == "Action" {
				add("", n.Rhs[0])
			}
		case *ast.CallExpr:
			for _, p := range places {
				if p.function == calleeOf(n) && p.at < len(n.Args) {
					add(p.prefix, n.Args[p.at])
				}
			}
		}
	})
	return slices.Sorted(maps.Keys(found))
}

func eachNode(files map[string]*ast.File, visit func(ast.Node)) {
	for path, file := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			visit(n)
			return true
		})
	}
}

// prefixOf returns the text of an expression "text." + action in a function.
func prefixOf(f *ast.FuncDecl) (prefix string) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if sum, ok := n.(*ast.BinaryExpr); ok {
			if name, ok := sum.Y.(*ast.Ident); ok && name.Name == "action" {
				prefix = textIn(sum.X)
			}
		}
		return true
	})
	return prefix
}

// textIn returns the text of a literal, or "".
func textIn(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value) // the parser accepts well-formed literals only
	return text
}

func indexOfParameter(f *ast.FuncDecl, name string) int {
	at := 0
	for _, field := range f.Type.Params.List {
		for _, p := range field.Names {
			if p.Name == name {
				return at
			}
			at++
		}
	}
	return -1
}

func calleeOf(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
