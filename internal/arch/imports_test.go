package arch

import (
	"path"
	"slices"
	"strings"
	"testing"
)

func ours(name string) (pkg string, ok bool) { return strings.CutPrefix(name, module+"/") }

func TestEveryPackageHasAnImportRule(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		group, rest, _ := strings.Cut(f.pkg, "/")
		layer, _, _ := strings.Cut(rest, "/")
		switch {
		case ruleOf(f.pkg) == "":
			t.Errorf("%s has no import rule: add it to the table in internal/arch", f.pkg)
		case layers[group] != nil && !slices.Contains(layers[group], layer):
			t.Errorf("%s has no layer in %s", f.pkg, group)
		}
	}
}

// TestImportsPointDown checks the import table. Test files may import higher layers. The library
// rules apply to them too.
func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		for _, name := range f.imports {
			pkg, ok := ours(name)
			if !ok || f.test {
				continue
			}
			if why := violation(f.pkg, pkg); why != "" {
				t.Errorf("%s imports %s: %s %s", f.path, pkg, f.pkg, why)
			}
		}
	}
}

func TestLibraryRules(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		for _, name := range f.imports {
			if why := libraryViolation(f, name); why != "" {
				t.Errorf("%s imports %s: %s", f.path, name, why)
			}
		}
	}
}

func libraryViolation(f file, name string) string {
	for _, rule := range libraryRules {
		switch {
		case !underAny(name, rule.library):
		case rule.only != nil && !underAny(f.pkg, rule.only):
			return "only under " + strings.Join(rule.only, ", ")
		case underAny(f.pkg, rule.never):
			return "never under " + strings.Join(rule.never, ", ")
		case rule.never != nil && path.Base(f.path) == "state.go":
			return "a state machine is pure"
		}
	}
	return ""
}

// TestViolations checks the table itself. A rule that allows everything finds nothing.
func TestViolations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to string
		allowed  bool
	}{
		"a tool knows no product noun":          {"internal/pg", "platform/audit", false},
		"tools use each other":                  {"internal/pgtest", "internal/pgcluster", true},
		"tests of the schema clone it":          {"internal/pgtest", "migrations", true},
		"other tools do not":                    {"internal/pg", "migrations", false},
		"every package uses tools":              {"desired", "internal/errs", true},
		"a lower layer":                         {"platform/ledger", "platform/audit", true},
		"a higher layer":                        {"platform/audit", "platform/ledger", false},
		"an adapter imports its port":           {"platform/identity/oidc", "platform/identity", true},
		"a package imports its pure part":       {"product/slots", "product/slots/place", true},
		"an adapter of a higher layer":          {"platform/audit", "platform/identity/oidc", false},
		"product uses platform":                 {"product/allocation", "platform/ledger", true},
		"platform does not know product":        {"platform/ledger", "product/allocation", false},
		"product writes desired state":          {"product/allocation", "desired", true},
		"product does not validate":             {"product/allocation", "desired/validate", false},
		"domain packages run no loops":          {"product/allocation", "reconciler", false},
		"domain packages do not read reports":   {"product/allocation", "observed", false},
		"the plan reads both sides":             {"reconciler/plan", "observed", true},
		"the plan knows no check":               {"reconciler/plan", "reconciler/check", false},
		"the check knows the plan":              {"reconciler/check", "reconciler/plan", true},
		"the loop uses both":                    {"reconciler", "reconciler/check", true},
		"the loop owns no product":              {"reconciler", "product/allocation", false},
		"the loop knows no GitOps":              {"reconciler", "gitops/sync", false},
		"workers use domain packages":           {"jobs", "product/allocation", true},
		"workers use mailboxes":                 {"jobs", "jobs/nodetask", true},
		"mailboxes are a leaf":                  {"jobs/nodetask", "jobs", false},
		"the agent uses its parts":              {"agent/runner", "agent/journal", true},
		"the agent speaks the protocol":         {"agent/runner", "protocol/fault", true},
		"the protocol is a leaf":                {"protocol", "agent/runner", false},
		"the agent knows no desired state":      {"agent/runner", "desired", false},
		"a handler uses a domain package":       {"api/rest", "product/allocation", true},
		"the node API knows no allocations":     {"api/nodeapi", "product/allocation", false},
		"generated code is a leaf":              {"api/oapi", "product/allocation", false},
		"the server starts the API":             {"server", "api/rest", true},
		"the server does not link the agent":    {"server", "agent", false},
		"the server knows no development parts": {"server", "dev/up", false},
		"the API does not know the server":      {"api/rest", "server", false},
		"a command uses the client":             {"cli/alloc", "cli/client", true},
		"only local commands start a server":    {"cli/alloc", "server", false},
		"local commands start an installation":  {"cli/local", "dev/up", true},
		"development parts know no commands":    {"dev/up", "cli", false},
		"the program runs the commands":         {"cmd/gpuaas", "cli", true},
		"no package imports a program":          {"api/rest", "cmd/gpuaas", false},
		"nor the end-to-end tests":              {"cmd/gpuaas", "e2e/bench", false},
		"Git sources are validated":             {"gitops/source", "desired/validate", true},
		"a source knows no sync":                {"gitops/source", "gitops/sync", false},
		"desired does not validate":             {"desired", "desired/validate", false},
		"a revision writes desired objects":     {"desired/revision", "desired", true},
		"objects know no revision":              {"desired", "desired/revision", false},
		"product applies no revision":           {"product/allocation", "desired/revision", false},
		"an unknown folder":                     {"util/strings", "internal/errs", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if why := violation(c.from, c.to); (why == "") != c.allowed {
				t.Errorf("%s → %s: %q, want allowed = %t", c.from, c.to, why, c.allowed)
			}
		})
	}
}
