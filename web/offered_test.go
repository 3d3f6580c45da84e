package web_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaas/policies"
)

// TestChangesAreGated is AT-107: a screen that a role can open offers a change that the role may not do only behind a
// check. The check names an operation, and no role of the screen passes it without the right to the change.
func TestChangesAreGated(t *testing.T) {
	t.Parallel()

	changes := changesOf(t)
	var checked int
	for _, s := range codeMap(t) {
		for _, operation := range s.Operations {
			if !changes[operation] || allMay(s.Roles, operation) {
				continue
			}
			checked++
			if !slices.ContainsFunc(s.gates, func(gate string) bool { return isGate(s.Roles, gate, operation) }) {
				t.Errorf("%s offers %s to roles that get 403: check may(%q) in it, and add the operation to web/src/session/roles.json or platform.json", s.Route, operation, operation)
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d changes are gated", checked)
	}
}

// TestChangesOfAViewer: the list with which a test of the portal compares what a viewer is offered on each screen.
func TestChangesOfAViewer(t *testing.T) {
	t.Parallel()

	changes := changesOf(t)
	var want []string
	for _, s := range codeMap(t) {
		for _, operation := range s.Operations {
			if changes[operation] && viewerMay(operation) && !slices.Contains(want, operation) {
				want = append(want, operation)
			}
		}
	}
	slices.Sort(want)
	got := storedMap(t).Viewer
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("write in web/screens.yaml:\nviewer: %v", want)
	}
}

func viewerMay(operation string) bool {
	return slices.ContainsFunc([]string{"user", "tenant.viewer", "project.viewer"}, func(role string) bool { return policies.Allows(role, operation) })
}

// changesOf has the operations that are no reading.
func changesOf(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, op := range contract(t) {
		all[op.OperationID] = op.Method != http.MethodGet
	}
	return all
}

func allMay(roles []string, operation string) bool {
	return !slices.ContainsFunc(everyRole(roles), func(role string) bool {
		return !policies.Allows(role, operation) && !policies.Allows("user", operation)
	})
}

// isGate returns whether each role that passes a check of the gate may do the operation.
func isGate(roles []string, gate, operation string) bool {
	return !slices.ContainsFunc(everyRole(roles), func(role string) bool { return policies.Allows(role, gate) && !policies.Allows(role, operation) })
}

// everyRole are the roles that open a screen. Every user has one in a tenant or a project.
func everyRole(roles []string) (all []string) {
	if !slices.Equal(roles, []string{"user"}) {
		return roles
	}
	for _, r := range policies.Roles() {
		if r.Scope == "tenant" || r.Scope == "project" {
			all = append(all, r.Name)
		}
	}
	return all
}
