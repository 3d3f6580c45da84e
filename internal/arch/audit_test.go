package arch

import (
	"go/ast"
	"go/token"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// unaudited are the writes for a caller without an audit row, with the reason: by operationId, or
// by package and function.
var unaudited = map[string]string{
	"previewAllocation":                     "evaluates a request and writes nothing",
	"receiveGitHook":                        "makes the next poll of a source earlier; no user acts",
	"receivePaymentEvent":                   "stores the provider's signed event; no user acts, and a worker processes it",
	"uploadStorage":                         "a data set has millions of files, which are data of the tenant; what removes and restores files is audited",
	"createStorageFolder":                   "as uploadStorage",
	"renameStorage":                         "as uploadStorage",
	"copyStorage":                           "as uploadStorage",
	"createStorageUpload":                   "as uploadStorage",
	"uploadStoragePart":                     "as uploadStorage",
	"completeStorageUpload":                 "as uploadStorage",
	"abortStorageUpload":                    "as uploadStorage",
	"signStorageParts":                      "as uploadStorage",
	"product/storage Complete":              "as uploadStorage",
	"product/storage Abort":                 "as uploadStorage",
	"product/storage Copy":                  "as uploadStorage",
	"product/storage CreateFolder":          "as uploadStorage",
	"product/storage Rename":                "as uploadStorage",
	"product/storage SetMetadata":           "as uploadStorage",
	"product/storage/accesskey QueueMounts": "the audit row of the allocation names its mounts",
	"mintServiceAccountToken":               "mints from a credential whose making was audited, and changes nothing but the time of its last use",
}

// unprivileged tables contain no actions of users.
var unprivileged = []string{
	"idempotency_keys", // what was answered
}

// TestPrivilegedChangesAreAudited is CI-04: a write for a caller queues an audit row. It reads the
// code and compares names. The matrix tests check that the row exists, and so does the trigger that
// rejects a commit without one.
func TestPrivilegedChangesAreAudited(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	fault := func(place, what string) {
		used[place] = true
		if unaudited[place] == "" {
			t.Errorf("%s %s: queue an audit.Entry in its transaction, or give the reason in internal/arch/audit_test.go", place, what)
		}
	}
	all := bodies(t)
	for _, room := range slices.Sorted(maps.Keys(all)) {
		if !underAny(room, []string{"platform", "product", "gitops/change"}) {
			continue
		}
		for name, f := range all[room].functions {
			exported := ast.IsExported(strings.TrimPrefix(name, "."))
			if f.forCaller && exported && all[room].writes(name) && !audited(all, room, name) {
				fault(room+" "+strings.TrimPrefix(name, "."), "writes for a caller and reaches no audit.Queue")
			}
		}
	}
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, op := range openapi.Operations(doc) {
		if op.Method == http.MethodGet || op.Method == http.MethodHead {
			continue
		}
		handler := strings.ToUpper(op.OperationID[:1]) + op.OperationID[1:]
		pkg := packageOf(all, handler)
		if pkg == "" {
			t.Errorf("%s has no handler %s below api/rest", op.OperationID, handler)
			continue
		}
		found++
		if !audited(all, pkg, "."+handler) {
			fault(op.OperationID, "changes state, and no package that its handler calls reaches audit.Queue")
		}
	}
	if found < 3 {
		t.Errorf("only %d operations that change something: this test reads the wrong files", found)
	}
	for place := range unaudited {
		if !used[place] {
			t.Errorf("%q is excused in audit_test.go and is audited: remove the excuse", place)
		}
	}
}

// packageOf returns the package below api/rest that declares a handler, or "".
func packageOf(all map[string]*bodiesOf, handler string) string {
	for pkg, of := range all {
		if under(pkg, "api/rest") && of.functions["."+handler] != nil {
			return pkg
		}
	}
	return ""
}

// audited reports whether a function queues an audit row in its package, in a package that it
// calls, or in a function that the wiring passes in.
func audited(all map[string]*bodiesOf, pkg, name string) bool {
	if all[pkg].audits(name) {
		return true
	}
	wiredTo := func(f *function) map[string]bool { return f.services }
	handedIn := all[pkg].reach(name, wiredTo)
	for called := range maps.Clone(handedIn) { // a type of the same package, with wiring of its own
		maps.Copy(handedIn, all[pkg].reach("."+called, wiredTo))
	}
	for called := range handedIn {
		for other, room := range all {
			if other != pkg && underAny(other, []string{"platform", "product", "gitops/change", "services", "server", "cli"}) && (room.audits("."+called) || room.audits(called)) {
				return true
			}
			// A package that calls a lower one: one level only.
			for further := range room.reach("."+called, wiredTo) {
				if other != pkg && underAny(other, []string{"product", "platform/identity"}) && (all["platform/identity"].audits("."+further) || all["product/fleet"] != nil && all["product/fleet"].audits("."+further)) {
					return true
				}
			}
		}
	}
	return false
}

// function contains what the source has about a function name. Methods of one package that share a
// name are merged.
type function struct {
	calls     map[string]bool // functions and statements of its own package, and .methods
	services  map[string]bool // of what it calls on a field of its receiver: s.Identity.Add
	audits    bool
	forCaller bool
}

type bodiesOf struct {
	functions map[string]*function
	changes   map[string]bool // names of statements that write a table
}

// reach collects what a function and those that it calls are about.
func (b *bodiesOf) reach(name string, about func(*function) map[string]bool) map[string]bool {
	seen, got := map[string]bool{}, map[string]bool{}
	for next := []string{name}; len(next) > 0; {
		name, next = next[0], next[1:]
		f := b.functions[name]
		if f == nil || seen[name] {
			continue
		}
		seen[name] = true
		maps.Copy(got, about(f))
		next = slices.AppendSeq(next, maps.Keys(f.calls))
	}
	return got
}

func (b *bodiesOf) writes(name string) bool {
	for called := range b.reach(name, func(f *function) map[string]bool { return f.calls }) {
		if b.changes[called] {
			return true
		}
	}
	return false
}

func (b *bodiesOf) audits(name string) bool {
	return b.reach(name, func(f *function) map[string]bool { return map[string]bool{strconv.FormatBool(f.audits): true} })["true"]
}

func bodies(t *testing.T) map[string]*bodiesOf {
	t.Helper()
	owner := owners(t)
	all := map[string]*bodiesOf{}
	callers := map[string]bool{} // types that carry a caller, by package and name
	var files []file
	for _, f := range sources(t) {
		if f.test || !underAny(f.pkg, []string{"api/rest", "platform", "product", "gitops/change", "services", "server", "cli"}) {
			continue
		}
		files = append(files, f)
		for _, d := range f.syntax.Decls {
			for name, fields := range structs(d) {
				if slices.ContainsFunc(fields.List, func(p *ast.Field) bool { return isCaller(f.pkg, p.Type, nil) }) {
					callers[f.pkg+" "+name] = true
				}
			}
		}
	}
	for _, f := range files {
		if all[f.pkg] == nil {
			all[f.pkg] = &bodiesOf{functions: map[string]*function{}, changes: map[string]bool{}}
		}
		for _, d := range f.syntax.Decls {
			all[f.pkg].add(f, d, owner, callers)
		}
	}
	return all
}

func structs(d ast.Decl) map[string]*ast.FieldList {
	found := map[string]*ast.FieldList{}
	if g, ok := d.(*ast.GenDecl); ok {
		for _, s := range g.Specs {
			if typ, ok := s.(*ast.TypeSpec); ok {
				if body, ok := typ.Type.(*ast.StructType); ok {
					found[typ.Name.Name] = body.Fields
				}
			}
		}
	}
	return found
}

func (b *bodiesOf) add(f file, d ast.Decl, owner map[string]string, callers map[string]bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = "." + name
		}
		fn := b.named(name)
		for _, p := range d.Type.Params.List {
			fn.forCaller = fn.forCaller || isCaller(f.pkg, p.Type, callers)
		}
		fn.read(f, d, receiver(d))
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok && len(v.Values) > 0 && changes(v.Values[0], owner) {
				b.changes[v.Names[0].Name] = true
			}
		}
	}
	// What the wiring hands in has the name of the field that it fills.
	ast.Inspect(d, func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok && underAny(f.pkg, []string{"services", "server", "cli"}) {
			if field, ok := pair.Key.(*ast.Ident); ok {
				b.named("."+field.Name).read(f, pair.Value, "s")
			}
		}
		return true
	})
}

func (b *bodiesOf) named(name string) *function {
	if b.functions[name] == nil {
		b.functions[name] = &function{calls: map[string]bool{}, services: map[string]bool{}}
	}
	return b.functions[name]
}

// receiver returns the name of a method's receiver, or "".
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List[0].Names) == 0 {
		return ""
	}
	return d.Recv.List[0].Names[0].Name
}

func (fn *function) read(f file, n ast.Node, receiver string) {
	imported := map[string]bool{}
	for _, name := range f.imports {
		imported[name[strings.LastIndex(name, "/")+1:]] = true
	}
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			fn.calls[n.Name] = true
			fn.audits = fn.audits || f.pkg == "platform/audit" && n.Name == "Queue"
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok {
				if x, plain := s.X.(*ast.Ident); !plain || !imported[x.Name] {
					fn.calls["."+s.Sel.Name] = true
				}
			}
		case *ast.SelectorExpr:
			x, plain := n.X.(*ast.Ident)
			field, of := wired(n, receiver)
			switch {
			case plain && imported[x.Name]:
				fn.audits = fn.audits || qualified(n) == "audit.Queue"
				// ledger.QueueFunds counts; event.Queue does not, since it would be confused with
				// audit.Queue.
				if strings.HasPrefix(n.Sel.Name, "Queue") && n.Sel.Name != "Queue" {
					fn.services[n.Sel.Name] = true
				}
				return false
			case of:
				fn.services[field] = true
			}
			if plain && x.Name == receiver {
				fn.calls["."+n.Sel.Name] = true // also where it is handed on
			}
			ast.Inspect(n.X, visit)
			return false // the name of a field is no function
		}
		return true
	}
	ast.Inspect(n, visit)
}

// wired returns what a handler calls on a field of its receiver: Add of s.Identity.Add, and
// EnrolmentToken of s.EnrolmentToken.
func wired(n *ast.SelectorExpr, receiver string) (name string, found bool) {
	switch x := n.X.(type) {
	case *ast.Ident:
		return n.Sel.Name, x.Name == receiver && ast.IsExported(n.Sel.Name)
	case *ast.SelectorExpr:
		_, found = wired(x, receiver)
		return n.Sel.Name, found
	}
	return "", false
}

// isCaller reports whether a parameter identifies the caller: a caller, a change, or a struct of
// the package with one of them.
func isCaller(pkg string, e ast.Expr, callers map[string]bool) bool {
	switch e := e.(type) {
	case *ast.StarExpr:
		return isCaller(pkg, e.X, callers)
	case *ast.IndexExpr: // Change[Tenant]
		return isCaller(pkg, e.X, callers)
	case *ast.SelectorExpr:
		return qualified(e) == "identity.Caller" || qualified(e) == "identity.Change"
	case *ast.Ident:
		return pkg == "platform/identity" && (e.Name == "Caller" || e.Name == "Change") || callers[pkg+" "+e.Name]
	}
	return false
}

var change = regexp.MustCompile(`(\bFOR |\bDO )?\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+(?:ONLY\s+)?(\w+)`)

// changes reports whether an expression is a statement that writes one of our tables.
func changes(e ast.Expr, owner map[string]string) bool {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return false
	}
	text, _ := strconv.Unquote(lit.Value)
	for _, match := range change.FindAllStringSubmatch(comment.ReplaceAllString(text, ""), -1) {
		if match[1] == "" && owner[match[2]] != "" && !slices.Contains(unprivileged, match[2]) {
			return true
		}
	}
	return false
}

// demanded are the tables whose trigger rejects a change without an audit row. A table can leave
// the list only by an edit here, which a reviewer sees.
var demanded = []string{
	"tenants", "projects", "tenant_memberships", "project_memberships", "users", "user_passwords", "invitations",
	"service_accounts", "service_account_credentials", "api_keys", "ssh_keys", "sessions", "sign_in_links", "allocations", "enrolment_tokens",
	"git_sources", "desired_objects", "plans", "plan_approvals", "drift", // who suspends, adopts, approves, ignores
	"ledger_transfers", "payment_sessions", "refund_requests", "payment_disputes", "payment_mandates", // who adjusts a balance, tops up, refunds, disputes
	"holds", "agent_releases", "certificates", "breaker_trips", // who cordons, publishes a build of the agent, revokes, lets the platform hold again
	"terminal_tokens", "terminal_sessions", // who may enter an allocation, enters it, ends a session
	"webhook_endpoints",                                // who sends events where
	"fault_reports",                                    // who reports and decides
	"notification_preferences", "suppressed_addresses", // who changes, lifts
	"dead_letters", "event_replays", // who retries, discards, replays
	"slot_inspections",         // who states that a slot is clean without a proof
	"signing_keys", "key_sets", // who creates, rotates and ends keys
}

var (
	demand = regexp.MustCompile(`CREATE CONSTRAINT TRIGGER \w+_are_audited\s+AFTER [^;]*? ON (\w+)\s[^;]*EXECUTE FUNCTION demand_audit\(\)`)
	weaken = regexp.MustCompile(`(?i)DROP TRIGGER.*_are_audited|DISABLE TRIGGER|DROP FUNCTION (?:IF EXISTS )?demand_audit`)
)

func TestTriggersDemandAuditRows(t *testing.T) {
	t.Parallel()
	have := map[string]bool{}
	found := false
	walk(t, func(path string) {
		if !under(path, "migrations") || !strings.HasSuffix(path, ".sql") {
			return
		}
		up := comment.ReplaceAllString(read(t, path), "")
		if match := weaken.FindString(up); match != "" {
			t.Errorf("%s: %s removes an audit demand", path, match)
		}
		for _, match := range demand.FindAllStringSubmatch(up, -1) {
			found = true
			have[match[1]] = true
		}
	})
	if !found {
		t.Fatal("no migration demands audit rows")
	}
	for _, table := range demanded {
		if !have[table] {
			t.Errorf("no migration demands an audit row for a change of %s", table)
		}
		delete(have, table)
	}
	for table := range have {
		t.Errorf("%s demands audit rows and is not in the list of audit_test.go: add it, so that it stays", table)
	}
}
