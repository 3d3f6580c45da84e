package arch

import (
	"path"
	"slices"
	"strings"
	"testing"
)

func ours(name string) (pkg string, ok bool) { return strings.CutPrefix(name, module+"/") }

func TestEveryPackageHasARoom(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		wing, rest, _ := strings.Cut(f.pkg, "/")
		room, _, _ := strings.Cut(rest, "/")
		switch {
		case roomOf(f.pkg) == "":
			t.Errorf("%s has no room: add it to the table in internal/arch, with what it may import", f.pkg)
		case floors[wing] != nil && !slices.Contains(floors[wing], room):
			t.Errorf("%s has no floor in %s", f.pkg, wing)
		}
	}
}

// Test files may look up the stairs: a room's tests are often told best from
// above. What a node or a pure package links is held for them, too.
func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		for _, name := range f.imports {
			pkg, ok := ours(name)
			if !ok || f.test {
				continue
			}
			if why := verdict(f.pkg, pkg); why != "" {
				t.Errorf("%s imports %s: %s %s", f.path, pkg, f.pkg, why)
			}
		}
	}
}

func TestLibrariesStayBehindTheirFences(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		for _, name := range f.imports {
			if why := fenced(f, name); why != "" {
				t.Errorf("%s imports %s: %s", f.path, name, why)
			}
		}
	}
}

func fenced(f file, name string) string {
	for _, fence := range fences {
		switch {
		case !underAny(name, fence.library):
		case fence.only != nil && !underAny(f.pkg, fence.only):
			return "only under " + strings.Join(fence.only, ", ")
		case underAny(f.pkg, fence.never):
			return "never under " + strings.Join(fence.never, ", ")
		case fence.never != nil && path.Base(f.path) == "state.go":
			return "a state machine is pure"
		}
	}
	return ""
}

// The table is judged as well: a rule that allows everything finds nothing.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to string
		allowed  bool
	}{
		"a tool knows no product noun":             {"internal/pg", "platform/audit", false},
		"tools use each other":                     {"internal/pgtest", "internal/pgcluster", true},
		"tests of the schema clone it":             {"internal/pgtest", "migrations", true},
		"other tools do not":                       {"internal/pg", "migrations", false},
		"everyone uses tools":                      {"desired", "internal/errs", true},
		"a lower floor":                            {"platform/ledger", "platform/audit", true},
		"a higher floor":                           {"platform/audit", "platform/ledger", false},
		"an adapter imports its room":              {"platform/identity/oidc", "platform/identity", true},
		"a room its own pure part":                 {"product/inventory", "product/inventory/place", true},
		"an adapter of a higher floor":             {"platform/audit", "platform/identity/oidc", false},
		"product stands on platform":               {"product/allocation", "platform/ledger", true},
		"platform does not know product":           {"platform/ledger", "product/allocation", false},
		"product declares":                         {"product/allocation", "desired", true},
		"product does not validate":                {"product/allocation", "desired/validate", false},
		"rooms run no loops":                       {"product/allocation", "reconciler", false},
		"rooms do not read reports":                {"product/allocation", "observed", false},
		"the plan sees both sides":                 {"reconciler/plan", "observed", true},
		"the plan knows no check":                  {"reconciler/plan", "reconciler/check", false},
		"the check knows the plan":                 {"reconciler/check", "reconciler/plan", true},
		"the loop uses both":                       {"reconciler", "reconciler/check", true},
		"the spine owns no product":                {"reconciler", "product/allocation", false},
		"work uses the rooms":                      {"jobs", "product/allocation", true},
		"work uses the mailbox":                    {"jobs", "jobs/nodetask", true},
		"the mailbox is a leaf":                    {"jobs/nodetask", "jobs", false},
		"a node uses its parts":                    {"agent/runner", "agent/wire", true},
		"the wire is a leaf":                       {"agent/wire", "agent/runner", false},
		"a node knows no desired state":            {"agent/runner", "desired", false},
		"a door uses a room":                       {"api/rest", "product/allocation", true},
		"the node door knows inventory alone":      {"api/nodeapi", "product/allocation", false},
		"generated code is a leaf":                 {"api/oapi", "product/allocation", false},
		"the wiring sees all":                      {"cmd/gpuaas", "reconciler/plan", true},
		"nobody imports the wiring":                {"api/rest", "cmd/gpuaas", false},
		"nor the end-to-end tests":                 {"cmd/gpuaas", "e2e/bench", false},
		"a binary has parts":                       {"cmd/gpuaas", "cmd/gpuaas/up", true},
		"git goes through validation":              {"desired/git", "desired/validate", true},
		"the door for intent does not import both": {"desired", "desired/validate", false},
		"an unknown folder":                        {"util/strings", "internal/errs", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if why := verdict(c.from, c.to); (why == "") != c.allowed {
				t.Errorf("%s → %s: %q, want allowed = %t", c.from, c.to, why, c.allowed)
			}
		})
	}
}
