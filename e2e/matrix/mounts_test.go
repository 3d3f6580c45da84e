package matrix_test

import (
	"net/http"
	"strings"
	"testing"
)

// A request with mounts needs the rights of the files that it mounts, also where it has those of allocations.
func TestMountsNeedTheRightsOfFiles(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for i, c := range []struct {
		scopes, mode string
		want         int
	}{
		{"allocations:write", "ro", http.StatusForbidden},
		{"allocations:write storage:read", "ro", http.StatusCreated},
		{"allocations:write storage:read", "rw", http.StatusForbidden},
		{"allocations:write storage:read storage:write", "rw", http.StatusCreated},
	} {
		a := w.newActor(w.unique("key"), w.a, "tenant.owner")
		w.limit(a, "allocations:write")
		a.scopes = strings.Fields(c.scopes)
		w.sql(`UPDATE api_keys SET scopes = $2 WHERE user_id = $1`, a.user, a.scopes)
		body := `{"sku":"` + sku + `","name":"` + w.unique("alloc") + `","mounts":[{"path":"data","at":"data","mode":"` + c.mode + `"}]}`
		got := w.send(a.create("/api/v1/allocations", w.a.project, "", body))
		if got.status != c.want || c.want == http.StatusForbidden && !strings.Contains(string(got.body), "mounts.0") {
			t.Errorf("%d: %s for %s: %d %s, want %d", i, c.scopes, c.mode, got.status, got.body, c.want)
		}
	}
	keys := queryOne[int](w.installation, `SELECT count(*) FROM storage_access_keys WHERE allocation_id IS NOT NULL`)
	if keys != 2 {
		t.Errorf("%d keys of mounts, want 2", keys)
	}
}
