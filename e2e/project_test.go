//go:build e2e

package e2e

import (
	"fmt"
	"testing"
)

// makesOneProject repeats one request until it is answered, and once more after
// that: after a crash between the commit and the response there is one project,
// one audit row of it, and one answer.
func (h *installation) makesOneProject(t testing.TB) {
	t.Helper()
	h.names++
	name := fmt.Sprintf("p-%d", h.names)
	repeat := func() allocation {
		return h.stubborn(t, "POST", "/api/v1/projects", "create-"+name, map[string]any{"name": name, "description": "made once"}, 201)
	}
	first := repeat()
	if again := repeat(); first.ID == "" || first.Name != name || again != first {
		t.Errorf("INV-06 the first answer %+v, the next %+v", first, again)
	}
	db, err := h.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	var projects, audited []string
	must(t, db.QueryRow(t.Context(), `SELECT
		(SELECT coalesce(array_agg(id::text), '{}') FROM projects WHERE name = $1),
		(SELECT coalesce(array_agg(split_part(target_urn, ':', -1)), '{}') FROM audit_logs WHERE action = 'project.create' AND after->>'name' = $1)`, name).Scan(&projects, &audited))
	if len(projects) != 1 || len(audited) != 1 || projects[0] != first.ID || audited[0] != first.ID {
		t.Errorf("%s was answered; there are the projects %v, and audit rows of %v", first.ID, projects, audited)
	}
}
