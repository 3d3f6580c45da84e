package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// The response to an update shows what the node reports, like a read.
func TestAnUpdateShowsTheObservedState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.allocate(t)
	path := allocations + "/" + a.Id.String()
	b.sql(fmt.Sprintf(`DO $$ BEGIN SET LOCAL session_replication_role = replica; UPDATE allocations SET status = 'active', active_at = now() WHERE id = '%s'; END $$`, a.Id))
	b.sql(`INSERT INTO observed_allocations (allocation_id, node_id, phase, fence, observed_generation, spec_hash, message, observed_at)
		VALUES ($1, $2, 'broken', 1, 1, 'h', 'keys', now())`, a.Id, a.NodeId)
	conditions := func(w *httptest.ResponseRecorder) string {
		t.Helper()
		var got struct {
			Conditions []struct{ Type, Status, Reason, Message string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return fmt.Sprint(got.Conditions)
	}
	tag := b.do(t, call{method: "GET", path: path, token: tokenOwner}).Header().Get("ETag")
	updated := conditions(b.do(t, call{method: "PATCH", path: path, token: tokenOwner, body: `{"labels":{"a":"b"}}`, header: map[string]string{"If-Match": tag}}))
	if read := conditions(b.do(t, call{method: "GET", path: path, token: tokenOwner})); updated != read {
		t.Errorf("the update shows %s, a read %s", updated, read)
	}
}
