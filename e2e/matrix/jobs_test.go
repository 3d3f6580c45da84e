package matrix_test

import (
	"net/http"
	"testing"
)

// TestINV55TheJobsPage asks what stands beside the contract: operators may look at
// jobs, administrators may change them, and a key with scopes is for neither.
func TestINV55TheJobsPage(t *testing.T) {
	t.Parallel()
	w := furnish(t)
	w.watch()
	for _, a := range w.actors {
		for _, r := range []request{
			{http.MethodGet, "/admin/river/api/jobs?state=available", a.header(), nil},
			{http.MethodPost, "/admin/river/api/jobs/cancel", a.header(), []byte(`{"ids":["1"]}`)},
		} {
			w.changed()
			got := w.send(r)
			wrote := w.changed()
			may := !a.limited && a.refused == "" && (a.has("admin") || a.has("operator") && r.method == http.MethodGet)
			switch {
			case a.refused != "" && (got.status != http.StatusUnauthorized || got.code() != a.refused),
				a.refused == "" && !may && (got.status != http.StatusForbidden || got.code() != "forbidden"),
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
	w := furnish(t)
	for _, a := range w.actors {
		got := w.send(request{http.MethodGet, "/api/v1/events?scope=platform", a.header(), nil})
		may := a.refused == "" && !a.limited && (a.has("admin") || a.has("operator"))
		if may != (got.status == http.StatusOK) {
			t.Errorf("%s: %d %.200s", a.name, got.status, got.body)
		}
	}
}
