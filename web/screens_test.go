package web_test

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/policies"
)

var update = flag.Bool("update", false, "rewrite the screens of screens.yaml from the code")

// TestScreensAreMapped (WEB-41): screens.yaml has each route of the router, with the operations that its code calls, the
// roles that may call the first of them, and the states that it shows.
func TestScreensAreMapped(t *testing.T) {
	t.Parallel()

	stored, code := storedMap(t), codeMap(t)
	if len(code) < 15 {
		t.Fatalf("the router has only %d screens: its pattern is wrong", len(code))
	}
	var entries strings.Builder
	for _, s := range code {
		at := slices.IndexFunc(stored.Screens, func(other screen) bool { return other.Route == s.Route })
		if at >= 0 {
			s.Subjects = stored.Screens[at].Subjects
		}
		entries.WriteString(s.entry())
		if (at < 0 || stored.Screens[at].entry() != s.entry()) && !*update {
			t.Errorf("web/screens.yaml differs from the code of the screen %s. Run `go test ./web -run ScreensAreMapped -update`, or write:\n%s", s.Route, s.entry())
		}
	}
	for _, s := range stored.Screens {
		if !*update && !slices.ContainsFunc(code, func(other screen) bool { return other.Route == s.Route }) {
			t.Errorf("web/screens.yaml has the screen %s, and the router does not: remove\n%s", s.Route, s.entry())
		}
	}
	if *update {
		text := regexp.MustCompile(`(?s)\nscreens:\n.*?\n(\w|#)`).ReplaceAllString(read(t, "screens.yaml"), "\nscreens:\n"+strings.ReplaceAll(entries.String(), "$", "$$")+"\n$1")
		if err := os.WriteFile("screens.yaml", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOperationsOfTenantsHaveAScreen (WEB-41): each operation that a role of a tenant may call is used by a screen, or has
// a reason why none uses it. No reason remains for an operation that a screen uses.
func TestOperationsOfTenantsHaveAScreen(t *testing.T) {
	t.Parallel()

	stored := storedMap(t)
	used := slices.Clone(stored.Shell)
	for _, s := range codeMap(t) {
		used = append(used, s.Operations...)
	}
	for _, op := range contract(t) {
		if slices.Contains(used, op.OperationID) && strings.HasPrefix(op.Path, "/api/v3/") {
			used = append(used, sectionsOf(op)...)
		}
	}
	known := map[string]bool{}
	for _, op := range contract(t) {
		known[op.OperationID] = true
		reason, shown := stored.WithoutScreen[op.OperationID], slices.Contains(used, op.OperationID)
		switch {
		case reason == "" && !shown && forTenants(op.OperationID):
			t.Errorf("no screen calls %s (%s). Add to without_screen of web/screens.yaml:\n  %s: the reason", op.OperationID, op.Summary, op.OperationID)
		case reason != "" && shown:
			t.Errorf("a screen calls %s: remove it from without_screen of web/screens.yaml", op.OperationID)
		}
	}
	for _, name := range used {
		if !known[name] {
			t.Errorf("a screen calls %s, which is no operation of the contract", name)
		}
	}
	for name := range stored.WithoutScreen {
		if !known[name] {
			t.Errorf("without_screen of web/screens.yaml has %s, which is no operation of the contract: remove it", name)
		}
	}
}

// TestSubjectsOfScreensExist: the subjects of the map are those of the contract of events. A test of the portal compares
// them with the queries of each screen.
func TestSubjectsOfScreensExist(t *testing.T) {
	t.Parallel()

	var events struct {
		Channels map[string]struct{ Address string }
	}
	if err := yaml.Unmarshal(asyncapi.Document, &events); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, channel := range events.Channels {
		all = append(all, channel.Address)
	}
	for _, s := range storedMap(t).Screens {
		for _, subject := range s.Subjects {
			if !slices.ContainsFunc(all, func(each string) bool { return isSubject(each, subject) }) {
				t.Errorf("%s uses the subject %s, which does not exist", s.Route, subject)
			}
		}
	}
}

// isSubject returns whether a subject is the one of the map, or in its domain.
func isSubject(subject, of string) bool {
	domain, all := strings.CutSuffix(of, "*")
	return subject == of || all && strings.HasPrefix(subject, domain)
}

// sectionsOf are the operations that a read model shows.
func sectionsOf(op openapi.Operation) (names []string) {
	example, _ := op.Responses.Value("200").Value.Content["application/json"].Example.(map[string]any)
	for _, section := range example {
		if fields, ok := section.(map[string]any); ok {
			if name, ok := fields["operation"].(string); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

func forTenants(operation string) bool {
	return policies.Allows("user", operation) || slices.ContainsFunc(policies.Roles(), func(r policies.Role) bool {
		return (r.Scope == "tenant" || r.Scope == "project") && policies.Allows(r.Name, operation)
	})
}
