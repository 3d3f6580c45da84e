package matrix_test

import (
	"net/http"
	"testing"
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
