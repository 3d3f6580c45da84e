package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// The overview shows what is wrong in each part, with an existing runbook. A part that cannot be read is unknown, and hides no
// other.
func TestTheOverviewShowsWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := setup(t, ticking)
	panels := func() map[oapi.OpsPanelName]oapi.OpsPanel {
		t.Helper()
		var got oapi.OpsOverview
		w := b.do(t, call{method: "GET", path: "/api/v1/admin/ops/overview", token: tokenOperator})
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		all := map[oapi.OpsPanelName]oapi.OpsPanel{}
		for _, p := range got.Panels {
			all[p.Name] = p
			if w := b.do(t, call{method: "GET", path: "/api/v1/runbooks/" + p.RunbookId, token: tokenOperator}); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "**Meaning.**") {
				t.Errorf("%s: %d %.100s", p.Name, w.Code, w.Body)
			}
		}
		return all
	}
	node, slot := b.newNode()
	failed := b.allocate(t).Id
	for _, c := range []struct {
		panel oapi.OpsPanelName
		value string
		cause func()
	}{
		{oapi.OpsPanelNameNodes, "unhealthy", func() { b.sql(`UPDATE nodes SET health = 'unhealthy' WHERE name = $1`, node) }},
		{oapi.OpsPanelNameCapacity, "quarantined", func() { b.sql(`UPDATE slots SET status = 'quarantined' WHERE id = $1`, slot) }},
		{oapi.OpsPanelNameAllocations, "release_failed", func() {
			b.move(failed.String(), "requested", "provisioning", "active", "releasing", "release_failed")
		}},
		{oapi.OpsPanelNameBreaker, "open", func() {
			b.sql(`INSERT INTO breaker_trips SELECT gen_random_uuid(), now(), 3, 2, 10, 'xid 79', '{}'::uuid[]`)
		}},
		{oapi.OpsPanelNameDrift, "overdue", func() { b.sql(`UPDATE drift SET deadline_at = now() - interval '1 hour' WHERE id = $1`, b.drift()) }},
		{oapi.OpsPanelNameUsage, "lag_seconds", func() {
			b.sql(`DO $$ BEGIN SET LOCAL session_replication_role = replica;
			DELETE FROM usage_passes;
			UPDATE usage_records SET start_s = start_s - 7200 WHERE id = (SELECT id FROM usage_records ORDER BY start_s LIMIT 1); END $$`)
		}},
		{oapi.OpsPanelNameSources, "failing", func() {
			b.sql(`UPDATE git_sources SET error_code = 'unreachable', error = 'no route', error_since = now(), checked_at = now() WHERE name = $1`, b.source())
		}},
		{oapi.OpsPanelNameRollouts, "stopped", func() {
			b.sql(`INSERT INTO agent_rollouts (version, status, ring, nodes, updated, updating, failed) VALUES ('9.9.9', 'stopped', 1, 10, 1, 0, 2)`)
		}},
	} {
		before := panels()[c.panel]
		c.cause()
		after := panels()[c.panel]
		if after.Status != oapi.OpsPanelStatusDegraded || after.Message == "" || after.Values[c.value] <= before.Values[c.value] {
			t.Errorf("%s: %+v, before: %+v", c.panel, after, before)
		}
	}
	b.sql(`ALTER TABLE breaker_trips RENAME TO gone`)
	for name, p := range panels() {
		if unknown := p.Status == oapi.OpsPanelStatusUnknown; unknown != (name == oapi.OpsPanelNameBreaker) {
			t.Errorf("without a table: %s is %s", name, p.Status)
		}
	}
	if w := b.do(t, call{method: "GET", path: "/api/v1/admin/ops/overview", token: tokenOwner}); w.Code != http.StatusForbidden {
		t.Errorf("a tenant: %d", w.Code)
	}
}

// Fleet actions of an operator are in the audit log of the platform, not in that of the tenant of the operator.
func TestFleetActionsBelongToThePlatform(t *testing.T) {
	t.Parallel()
	b := setup(t, ticking)
	b.policy("auth.step_up_minutes", "platform", "0")
	node, slot := b.newNode()
	at := "/api/v1/admin/nodes/" + node
	const reason = `{"reason":"board swap"}`
	for i, c := range []struct{ path, body, action string }{
		{at + "/cordon", reason, "node.cordon"},
		{at + "/uncordon", `{}`, "node.uncordon"},
		{at + "/drain", reason, "node.drain"},
		{at + "/uncordon", `{}`, "node.uncordon"},
		{at + "/health-override", `{"level":"degraded","reason":"leak"}`, "node.health_override"},
		{at + "/retirement", `{"reason":"old","retires_at":"` + time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339) + `"}`, "node.announce_retirement"},
		{at + "/enrolment-token", `{}`, "node.enrolment_token"},
		{"/api/v1/admin/slots/" + slot + "/quarantine", reason, "slot.quarantine"},
		{at + "/gpus/GPU-" + node + "-1/reset", reason, "node.gpu_reset"},
	} {
		if w := b.do(t, call{method: "POST", path: c.path, token: tokenAdmin, body: c.body}); w.Code >= 300 {
			t.Errorf("%s: %d %s", c.path, w.Code, w.Body)
			continue
		}
		row := read[string](b, `SELECT action || ' ' || coalesce(org_id::text, 'platform') || ' ' || (actor LIKE 'user:%') FROM audit_logs ORDER BY xid DESC, id DESC LIMIT 1`)
		if want := c.action + " platform true"; row != want {
			t.Errorf("%d, %s: %s, want %s", i, c.path, row, want)
		}
	}
}

// SKU, size and region of an allocation do not change. The code differs from that of an invalid body.
func TestAChangeThatNeedsAReplacement(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.allocate(t)
	path := allocations + "/" + a.Id.String()
	for field, body := range map[string]string{"sku": `{"sku":"h100-sxm"}`, "gpus": `{"gpus":2}`, "region": `{"name":"other","region":"eu-1"}`} {
		w := b.do(t, call{method: "PATCH", path: path, token: tokenOwner, body: body, header: map[string]string{"If-Match": "*"}})
		if p := problem(t, w); w.Code != http.StatusUnprocessableEntity || p.Code != "change_needs_replacement" {
			t.Errorf("%s: %d %s", field, w.Code, w.Body)
		}
	}
	if row := read[string](b, `SELECT name || ' ' || sku || ' ' || version FROM allocations WHERE id = $1`, a.Id); row != a.Name+" h100-sxm 1" {
		t.Errorf("the allocation is %s", row)
	}
}

// A tenant sees readings of its own time only: from the start of its use to its end.
func TestTelemetryIsOfTheOwnTime(t *testing.T) {
	t.Parallel()
	b := setup(t, ticking)
	a := b.allocate(t)
	gpu := read[string](b, `SELECT gpu_uuid FROM slots s JOIN slot_claims c ON c.slot_id = s.id WHERE c.allocation_id = $1`, a.Id)
	now := time.Now().UTC().Truncate(time.Minute)
	for before := 50; before >= 10; before-- {
		at := now.Add(-time.Duration(before) * time.Minute)
		b.sql(`INSERT INTO gpu_readings (node_id, slot, starts_at, readings) VALUES ($1, $2, $3, jsonb_build_array(jsonb_build_object('s', 0, 'g', jsonb_build_object($4::text, jsonb_build_array(7, 1, 1, 1)))))`,
			a.NodeId, at.Hour()*60+at.Minute(), at, gpu)
	}
	minutes := func(n int) time.Time { return now.Add(-time.Duration(n) * time.Minute) }
	b.move(a.Id.String(), "requested", "provisioning")
	for _, c := range []struct {
		from, status string
		at           time.Time
		want         int
	}{{"provisioning", "active", minutes(40), 31}, {"active", "releasing", minutes(30), 10}} {
		b.move(a.Id.String(), c.from, c.status)
		b.sql(`UPDATE allocations SET active_at = $2, status_at = $3 WHERE id = $1`, a.Id, minutes(40), c.at)
		w := b.do(t, call{method: "GET", path: fmt.Sprintf("%s/%s/telemetry?from=%s", allocations, a.Id, minutes(60).Format(time.RFC3339)), token: tokenOwner})
		var got struct {
			Gpus []struct{ Readings []struct{ At time.Time } }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || len(got.Gpus) != 1 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if n := len(got.Gpus[0].Readings); n != c.want {
			t.Errorf("%s: %d readings, want %d", c.status, n, c.want)
		}
	}
}

// A list of nodes has the newest update of the agent of each node, with its ring.
func TestNodesHaveTheirNewestUpdate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sql(`INSERT INTO agent_updates (node_id, version, ring, fence, health, status, updated_at)
		SELECT id, v, r, 1, 'healthy', 'requested', now() - make_interval(hours => 2 - r) FROM nodes, (VALUES ('1.2.0', 1), ('1.3.0', 2)) AS u (v, r) WHERE name = $1`, cordoned)
	w := b.do(t, call{method: "GET", path: "/api/v1/admin/nodes", token: tokenOperator})
	var list oapi.NodeList
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Items) < 2 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for _, n := range list.Items {
		switch {
		case n.Name != cordoned && n.AgentUpdates != nil:
			t.Errorf("%s: %+v", n.Name, *n.AgentUpdates)
		case n.Name == cordoned && (n.AgentUpdates == nil || len(*n.AgentUpdates) != 1 || (*n.AgentUpdates)[0].Ring != 2):
			t.Errorf("%s: %+v", n.Name, n.AgentUpdates)
		}
	}
}
