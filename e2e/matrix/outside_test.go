package matrix_test

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/policies"
)

// TestINV55TheJobsPage calls the routes outside the contract: operators may read
// jobs, administrators may change them, and a key with scopes is for neither.
func TestINV55TheJobsPage(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.watch()
	for _, a := range w.actors {
		for _, r := range []request{
			{http.MethodGet, "/admin/river/api/jobs?state=available", a.header(), nil},
			{http.MethodPost, "/admin/river/api/jobs/cancel", a.header(), []byte(`{"ids":["1"]}`)},
		} {
			w.changed()
			got := w.send(r)
			wrote := w.changed()
			may := !a.limited && a.rejection == "" && (a.hasRole("admin") || a.hasRole("operator") && r.method == http.MethodGet)
			switch {
			case a.rejection != "" && (got.status != http.StatusUnauthorized || got.code() != a.rejection),
				a.rejection == "" && !may && (got.status != http.StatusForbidden || got.code() != "forbidden"),
				may && (got.status == http.StatusUnauthorized || got.status == http.StatusForbidden):
				t.Errorf("%s %s × %s: %d %.200s", r.method, r.path, a.name, got.status, got.body)
			case (!may || r.method == http.MethodGet) && len(wrote) > 0,
				may && r.method == http.MethodPost && wrote["INSERT audit_logs"] != 1:
				t.Errorf("%s %s × %s: %d, and wrote %s", r.method, r.path, a.name, got.status, wrote)
			}
		}
	}
}

// TestINV56EveryonesEvents are followed by operators alone, and by no key with
// scopes.
func TestINV56EveryonesEvents(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, a := range w.actors {
		got := w.send(request{http.MethodGet, "/api/v1/events?scope=platform", a.header(), nil})
		may := a.rejection == "" && !a.limited && (a.hasRole("admin") || a.hasRole("operator"))
		if may != (got.status == http.StatusOK) {
			t.Errorf("%s: %d %.200s", a.name, got.status, got.body)
		}
	}
}

// TestINV56EventsOfOwnProjects reads the stored events of each caller without a named project. Of each project and of each
// tenant's money, the stream has what the caller may read, and nothing else before it.
func TestINV56EventsOfOwnProjects(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	kinds := []string{"own", "other", "money"}
	stored := map[string]bool{}
	write := func(s *side, kind string) string {
		made, subject, project := id(), "provisioning.active", &s.project
		switch kind {
		case "other":
			project = &s.other
		case "money":
			subject, project = "billing.balance_adjusted", nil
		}
		w.sql(`INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, org_id, project_id, payload) VALUES ($1, upper(split_part($2, '.', 1)), $2, 'x', 1, $3, $4, '{}')`,
			made, subject, s.tenant, project)
		stored[made.String()] = true
		return made.String()
	}
	rounds := [2]map[*side]map[string]string{}
	for round := range rounds {
		rounds[round] = map[*side]map[string]string{w.a: {}, w.b: {}}
		for _, s := range []*side{w.b, w.a} {
			for _, kind := range kinds {
				rounds[round][s][kind] = write(s, kind)
			}
		}
	}
	for _, a := range w.actors {
		wide := a.hasRole("tenant.owner") || a.hasRole("tenant.viewer")
		listed := !a.program && !a.limited || slices.ContainsFunc(a.scopes, func(scope string) bool { return policies.Allows(scope, "listEvents") })
		may := map[string]bool{
			"own": wide || a.program || slices.ContainsFunc(a.roles, isInProject), "other": wide,
			"money": (wide || a.hasRole("tenant.billing")) && !a.limited,
		}
		var want []string
		for round := range rounds {
			for _, kind := range kinds {
				if a.side != nil && a.rejection == "" && listed && may[kind] {
					want = append(want, rounds[round][a.side][kind])
				}
			}
		}
		if got := w.storedEvents(a, stored, len(want)); !slices.Equal(got, want) {
			t.Errorf("%s reads %v, want %v", a.name, got, want)
		}
	}
}

// storedEvents returns the first events of a caller's stream that are in stored.
func (w *fixture) storedEvents(a *actor, stored map[string]bool, want int) (got []string) {
	patience := 10 * time.Second
	if want == 0 {
		patience = 300 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/api/v1/events?since=0", nil)
	if err != nil {
		w.Fatal(err)
	}
	req.Header = a.header()
	resp, err := w.client.Do(req)
	if err != nil {
		w.Fatalf("%s: %v", a.name, err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan() && (want == 0 || len(got) < want); {
		if id, found := strings.CutPrefix(lines.Text(), "id: "); found && stored[id] {
			got = append(got, id)
		}
	}
	return got
}

// TestINV56ForeignEvents requests the events since one of another tenant, and since one that never existed.
func TestINV56ForeignEvents(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	since := func(a *actor, event string, header bool) answer {
		r := request{http.MethodGet, "/api/v1/events?since=" + event, a.header(), nil}
		if header {
			r.path = "/api/v1/events"
			r.header.Set("Last-Event-ID", event)
		}
		r.header.Set("X-Project-ID", w.a.project.String())
		return w.send(r)
	}
	theirs := queryOne[string](w.installation, `SELECT event_id::text FROM outbox_events WHERE org_id = $1 LIMIT 1`, w.b.tenant)
	ours := queryOne[string](w.installation, `SELECT event_id::text FROM outbox_events WHERE org_id = $1 LIMIT 1`, w.a.tenant)
	for _, header := range []bool{false, true} {
		if why := differ(since(w.a.owner, theirs, header), since(w.a.owner, id().String(), header)); why != "" {
			t.Errorf("another tenant's event differs from one that never existed: %s", why)
		}
		if got := since(w.a.owner, ours, header); got.status != http.StatusOK {
			t.Errorf("since one of their own: %d %.200s", got.status, got.body)
		}
	}
}
