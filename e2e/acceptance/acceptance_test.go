//go:build e2e

package acceptance

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const allocations = "/api/v1/allocations"

type allocation struct {
	ID       string     `json:"id"`
	URN      string     `json:"urn"`
	Status   string     `json:"status"`
	Node     string     `json:"node_id"`
	ActiveAt *time.Time `json:"active_at"`
}

// create creates an allocation of one GPU, which is released with the test. A test of free GPUs has an SKU of its own.
func create(t *testing.T, sku, name string) (a allocation) {
	t.Helper()
	r := request{method: "POST", path: allocations, body: map[string]any{"sku": sku, "gpus": 1, "name": name}, header: map[string]string{"X-Correlation-ID": name}}.send(t)
	if r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	}
	r.into(t, &a)
	t.Cleanup(func() {
		release(t, a)
		a.becomes(t, "released")
	})
	return a
}

func (a *allocation) becomes(t *testing.T, status string) {
	t.Helper()
	until(t, a.ID+" becomes "+status, func() bool {
		get(t, allocations+"/"+a.ID, a)
		return a.Status == status
	})
}

func release(t *testing.T, a allocation) reply {
	t.Helper()
	return request{method: "POST", path: allocations + "/" + a.ID + "/release", body: map[string]any{}}.send(t)
}

// free returns the number of free GPUs of an SKU.
func free(t *testing.T, name string) int {
	t.Helper()
	var sku struct {
		Free  int `json:"free"`
		Price struct {
			AmountMinor int `json:"amount_minor"`
		} `json:"price"`
	}
	get(t, "/api/v1/skus/"+name, &sku)
	if sku.Price.AmountMinor <= 0 {
		t.Errorf("%s has no price", name)
	}
	return sku.Free
}

// The SKUs of environments/dev.
const (
	skuOfAT010 = "t4"
	skuOfAT030 = "l40s"
	skuOfOther = "h100-sxm"
)

func TestAT010(t *testing.T) {
	proves(t)
	before := free(t, skuOfAT010)
	a := create(t, skuOfAT010, "at-010")
	if now := free(t, skuOfAT010); now != before-1 {
		t.Errorf("%d GPUs are free after the claim, and %d before", now, before)
	}
	a.becomes(t, "active")
	release(t, a)
	a.becomes(t, "released")
	until(t, "the GPU is free again", func() bool { return free(t, skuOfAT010) == before })

	var nodes struct{ Items []struct{ Name string } }
	r := request{as: "operator", method: "GET", path: "/api/v1/admin/nodes"}.send(t)
	r.into(t, &nodes)
	list := request{method: "GET", path: "/api/v1/skus"}.send(t)
	for _, n := range nodes.Items {
		if strings.Contains(string(list.body), n.Name) {
			t.Errorf("the SKUs name the node %s", n.Name)
		}
	}
	if len(nodes.Items) == 0 {
		t.Errorf("no nodes: %d %s", r.status, r.body)
	}
}

// intervals returns the usage intervals of an allocation.
func intervals(t *testing.T, a allocation) (all []struct {
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`
},
) {
	t.Helper()
	var list struct {
		Items []struct {
			StartedAt time.Time  `json:"started_at"`
			EndedAt   *time.Time `json:"ended_at"`
		}
	}
	get(t, "/api/v1/billing/usage/intervals?allocation_id="+a.ID, &list)
	return list.Items
}

func TestAT020(t *testing.T) {
	proves(t)
	a := create(t, skuOfOther, "at-020")
	if a.Status == "requested" && len(intervals(t, a)) > 0 {
		t.Error("usage before the allocation is active")
	}
	a.becomes(t, "active")
	used := intervals(t, a)
	if len(used) != 1 || used[0].EndedAt != nil || used[0].StartedAt.Before(a.ActiveAt.Truncate(time.Second)) {
		t.Errorf("active at %v, and used %v", a.ActiveAt, used)
	}
}

func TestAT030(t *testing.T) {
	proves(t)
	before := free(t, skuOfAT030)
	a := create(t, skuOfAT030, "at-030")
	a.becomes(t, "active")
	asked := time.Now()
	if r := release(t, a); r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := release(t, a); r.status != http.StatusConflict {
		t.Errorf("a second release: %d %s", r.status, r.body)
	}
	a.becomes(t, "released")
	until(t, "the slot is sold again", func() bool { return free(t, skuOfAT030) == before })
	if used := intervals(t, a); len(used) != 1 || used[0].EndedAt == nil || used[0].EndedAt.After(asked.Add(2*time.Second)) {
		t.Errorf("released at %s, and used %v", asked, used)
	}
	var proof struct {
		Proof map[string]any `json:"proof"`
		GPUs  []string       `json:"gpus"`
	}
	if get(t, allocations+"/"+a.ID+"/proof", &proof); len(proof.GPUs) != 1 || len(proof.Proof) == 0 {
		t.Errorf("the proof is %+v", proof)
	}
}

func TestAT042(t *testing.T) {
	proves(t)
	var list struct {
		Items []struct {
			ID          int64 `json:"id"`
			AmountMinor int64 `json:"amount_minor"`
		}
	}
	to := time.Now().UTC().Format(time.RFC3339Nano) // the first credit can be of this second
	get(t, "/api/v1/billing/ledger?limit=200&to="+to, &list)
	sum := int64(0)
	for _, e := range list.Items {
		sum += e.AmountMinor
	}
	r := request{method: "GET", path: "/api/v1/billing/ledger/csv?to=" + to}.send(t)
	rows, err := csv.NewReader(strings.NewReader(string(r.body))).ReadAll()
	if err != nil || len(rows) != len(list.Items)+1 || len(list.Items) == 0 {
		t.Fatalf("%d entries and %d rows: %v", len(list.Items), len(rows), err)
	}
	for _, row := range rows[1:] {
		var amount int64
		if _, err := fmt.Sscan(row[6], &amount); err != nil {
			t.Fatal(err)
		}
		sum -= amount
	}
	if sum != 0 {
		t.Errorf("the CSV differs from the ledger by %d", sum)
	}
}

func TestAT050(t *testing.T) {
	proves(t)
	checkout := func(amount int, key string) reply {
		return request{method: "POST", path: "/api/v1/payments/checkout-session", body: map[string]any{"amount_minor": amount}, header: map[string]string{"X-Idempotency-Key": key}}.send(t)
	}
	var first, again struct{ ID, URL, Status string }
	r := checkout(5000, "at-050")
	if r.into(t, &first); r.status != http.StatusCreated || first.URL == "" || first.Status != "initiated" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if checkout(5000, "at-050").into(t, &again); again != first {
		t.Errorf("the same key gives %+v and %+v", first, again)
	}
	if r := checkout(1, "at-050-small"); r.status != http.StatusBadRequest {
		t.Errorf("below the minimum: %d %s", r.status, r.body)
	}
	var row struct{ ID string }
	if get(t, "/api/v1/payments/sessions/"+first.ID, &row); row.ID != first.ID {
		t.Errorf("the row is %+v", row)
	}
}

type auditRow struct {
	Action        string `json:"action"`
	Target        string `json:"target"`
	CorrelationID string `json:"correlation_id"`
}

func audited(t *testing.T, query string) []auditRow {
	t.Helper()
	var list struct{ Items []auditRow }
	get(t, "/api/v1/audit-logs?"+query, &list)
	return list.Items
}

func TestAT080(t *testing.T) {
	proves(t)
	a := create(t, skuOfOther, "at-080")
	if rows := audited(t, "action=allocation.create&target="+a.URN); len(rows) != 1 {
		t.Errorf("%d rows of one create", len(rows))
	}
	refused := request{method: "POST", path: allocations, body: map[string]any{"sku": "none", "name": "at-080-none"}, header: map[string]string{"X-Correlation-ID": "at-080-none"}}.send(t)
	for _, row := range audited(t, "limit=200") {
		if row.CorrelationID == "at-080-none" {
			t.Errorf("a rejected request (%d) wrote %+v", refused.status, row)
		}
	}
}

func TestAT081(t *testing.T) {
	proves(t)
	a := create(t, skuOfOther, "at-081")
	day := time.Now().UTC().Add(-24 * time.Hour).Format(time.RFC3339)
	rows := audited(t, "target="+a.URN+"&from="+day)
	if len(rows) == 0 || rows[len(rows)-1].Action != "allocation.create" {
		t.Errorf("%+v", rows)
	}
	if none := audited(t, "target="+a.URN+"&to="+day); len(none) != 0 {
		t.Errorf("yesterday: %+v", none)
	}
	r := request{method: "GET", path: "/api/v1/audit-logs/export?action=allocation.create&target=" + a.URN}.send(t)
	table, err := csv.NewReader(strings.NewReader(string(r.body))).ReadAll()
	if err != nil || len(table) != 2 || table[1][5] != a.URN {
		t.Errorf("%d %s: %v", r.status, r.body, err)
	}
}

func TestAT083(t *testing.T) {
	proves(t)
	a := create(t, skuOfOther, "at-083")
	rows := audited(t, "action=allocation.create&target="+a.URN)
	if len(rows) != 1 || rows[0].CorrelationID != "at-083" {
		t.Errorf("audited: %+v", rows)
	}
	r := request{method: "GET", path: allocations, header: map[string]string{"X-Correlation-ID": "at-083-read"}}.send(t)
	if got := r.header.Get("X-Correlation-ID"); got != "at-083-read" {
		t.Errorf("the response has the correlation id %q", got)
	}
	var story struct{ Items []struct{ To string } }
	a.becomes(t, "active")
	get(t, allocations+"/"+a.ID+"/timeline", &story)
	if len(story.Items) < 3 {
		t.Errorf("the timeline is %+v", story)
	}
	until(t, "the user is notified", func() bool { return len(notifiedOf(t, a, "at-083")) > 0 })
}
