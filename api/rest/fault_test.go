package rest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// A tenant reads the reports of its own allocations with their decisions, and not which operator has decided.
func TestFaultReportsOfAnAllocation(t *testing.T) {
	t.Parallel()

	b := setup(t)
	a := b.allocate(t)
	b.activate(a.Id.String())
	path := allocations + "/" + a.Id.String()
	var reports []oapi.FaultReport
	for _, message := range []string{"wrong sums", "no fans"} {
		w := b.do(t, call{method: "POST", path: path + "/report-fault", token: tokenOwner, body: `{"message":"` + message + `"}`})
		var made oapi.FaultReport
		if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != 202 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		reports = append(reports, made)
	}
	b.sql(`UPDATE fault_reports SET status = 'rejected', decided_by = $2, decided_at = now(), decided_reason = 'fans are slow' WHERE id = $1`, reports[1].Id, "user:"+users[tokenAdmin].String())
	w := b.do(t, call{method: "GET", path: path + "/fault-reports", token: tokenMember})
	var list oapi.FaultReportList
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Items) != 2 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if first := list.Items[0]; first.Id != reports[1].Id || first.Status != "rejected" || *first.DecidedReason != "fans are slow" || first.DecidedBy != nil {
		t.Errorf("%s", w.Body)
	}
	for token, want := range map[string]int{tokenTheirs: 404, tokenStranger: 403} {
		if w := b.do(t, call{method: "GET", path: path + "/fault-reports", token: token}); w.Code != want {
			t.Errorf("%s: %d %s", nameOf(token), w.Code, w.Body)
		}
	}
	other := b.allocate(t)
	if w := b.do(t, call{method: "GET", path: allocations + "/" + other.Id.String() + "/fault-reports", token: tokenOwner}); !strings.Contains(w.Body.String(), `"items":[]`) {
		t.Errorf("of another allocation: %s", w.Body)
	}
}
