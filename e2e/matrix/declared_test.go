package matrix_test

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/protocol"
)

// The source of the declarations, and a policy key that is set.
const (
	source = "fleet"
	key    = "billing.window_seconds"

	consumerName = "notification_relay_low_balance"

	hookSecret = "a secret that only the forge knows"
)

// declare creates a source of declarations with an object of each kind. A forge
// speaks for the source; no test has its key.
func (w *fixture) declare() {
	settings := `{"forge": {"kind": "gitea", "url": "https://git.example", "project": "acme/fleet", "webhookSecretRef": "credential:hook"}}`
	for name, with := range map[string]string{source: settings, "other": "{}"} {
		w.sql(`INSERT INTO git_sources (name, repository, ref, dirs, declared_by, settings) VALUES ($1, 'file:///nowhere', 'main', '{.}', 'environment', $2)`, name, with)
	}
	for range 2 {
		w.sql(`INSERT INTO desired_revisions (source, repository, commit, status, objects) VALUES ($1, 'file:///nowhere', 'abc', 'applied', 1)`, source)
		w.drift()
	}
	w.sql(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner) VALUES ($1, 'SKU', $2, '{}', 'x', 'api')`, id(), sku)
	w.a.objects["FaultReportID"] = id().String() // each permitted call decides one of its own
	w.b.objects["FaultReportID"] = w.a.objects["FaultReportID"]
	w.sql(`INSERT INTO event_consumers (name, stream, epoch, pending, redelivered) VALUES ($1, 'BILLING', 'e', 0, 0)`, consumerName)
	w.a.objects["DeadLetterID"] = w.deadLetter()
	w.b.objects["DeadLetterID"] = w.a.objects["DeadLetterID"]
	w.a.objects["SuppressedAddressID"] = w.suppressed()
	w.b.objects["SuppressedAddressID"] = w.a.objects["SuppressedAddressID"]
	w.a.objects["DriftID"] = w.drift()
	w.b.objects["DriftID"] = w.a.objects["DriftID"]
	_, w.a.objects["SlotID"] = w.machine()
	w.b.objects["SlotID"] = w.a.objects["SlotID"]
	w.fingerprint = (&protocol.Topology{}).Hardware().Fingerprint()
}

// platforms are the objects with an id that belong to no tenant.
var platforms = map[string]bool{"PlanID": true, "FaultReportID": true, "DeadLetterID": true, "SuppressedAddressID": true, "DriftID": true, "SlotID": true}

func (w *fixture) suppressed() string {
	made := id()
	w.sql(`INSERT INTO suppressed_addresses (id, address, reason) VALUES ($1, $2, 'r')`, made, made.String())
	return made.String()
}

func (w *fixture) deadLetter() string {
	made := id()
	w.sql(`INSERT INTO dead_letters (id, consumer, event_id, stream, subject, error, attempts, dead_at)
		VALUES ($1, $2, $3, 'BILLING', 'billing.low_balance_warning', 'x', 10, now())`, made, consumerName, id())
	return made.String()
}

func (w *fixture) notification(s *side, user uuid.UUID) string {
	made := id()
	w.sql(`INSERT INTO notifications (id, user_id, org_id, kind, severity, urn, title, message) VALUES ($1, $2, $3, 'low_balance', 'info', 'u', 't', 'm')`, made, user, s.tenant)
	return made.String()
}

// webhook creates one of the side's project. No server has its address. Those of other cells end, because a policy limits them.
func (w *fixture) webhook(s *side) string {
	w.sql(`DELETE FROM webhook_endpoints WHERE org_id = $1 AND id::text <> $2`, s.tenant, s.objects["WebhookID"])
	h := s.owner.header()
	h.Set("Content-Type", "application/json")
	body := `{"name":"` + w.unique("hook") + `","url":"https://hooks.invalid/","events":["provisioning.*"],"project_id":"` + s.project.String() + `"}`
	got := w.send(request{http.MethodPost, "/api/v1/webhooks", h, []byte(body)})
	if got.status != http.StatusCreated {
		w.Fatalf("creating a webhook: %d %s", got.status, got.body)
	}
	return field(got.body, "id")
}

func (w *fixture) drift() string {
	made := id()
	w.sql(`INSERT INTO drift (id, kind, object_id, name, field) VALUES ($1, 'Node', $2, $3, 'gpus')`, made, id(), w.unique("drifting"))
	return made.String()
}

// machine is a declared node with a free slot, which has reported its hardware. Its slots are not
// sold by other cells.
func (w *fixture) machine() (name, slot string) {
	n, made := id(), id()
	name = w.unique("machine")
	w.sql(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner) VALUES ($1, 'Node', $2, '{}', 'x', 'api')`, n, name)
	w.sql(`INSERT INTO nodes (id, name, spec, lifecycle, health, reachability, topology)
		VALUES ($1, $2, jsonb_build_object('sku', 'other', 'region', $3::text, 'onboarding', 'simulated', 'gpus', 1), 'active', 'healthy', 'reachable', '{}')`, n, name, region)
	w.sql(`INSERT INTO gpus (uuid, node_id, index, model, memory_mib, health) VALUES ($1, $2, 0, 'Tesla T4', 16384, 'healthy')`, "GPU-"+name, n)
	w.sql(`INSERT INTO slots (id, node_id, gpu_uuid, sku, region, status) VALUES ($1, $2, $3, 'other', $4, 'clean')`, made, n, "GPU-"+name, region)
	return name, made.String()
}

// activate moves an allocation as the loop would.
func (w *fixture) activate(allocation string) string {
	return w.move(allocation, "requested", "provisioning", "active")
}

// move moves an allocation from state to state, as its node and its users would.
func (w *fixture) move(allocation string, states ...string) string {
	for i := range states[1:] {
		step := states[i : i+2]
		w.sql(`WITH moved AS (
				UPDATE allocations SET status = $3, version = version + 1, status_at = now(), active_at = CASE WHEN $3 = 'active' THEN now() ELSE active_at END
				WHERE id = $1 AND status = $2 RETURNING id, version
			)
			INSERT INTO allocation_transitions (allocation_id, version, trigger, from_status, to_status, reason, message)
			SELECT id, version, CASE WHEN $3 = 'active' THEN 'node_ready' ELSE 'task_queued' END, $2, $3, '', '' FROM moved`, allocation, step[0], step[1])
	}
	return allocation
}

// object is a declared node, of a name that no other cell has used.
func (w *fixture) object() string {
	name := w.unique("node")
	w.sql(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner) VALUES ($1, 'Node', $2, '{}', 'x', 'api')`, id(), name)
	return name
}

// plan is a proposal of another user: its author does not approve it.
func (w *fixture) plan(by *actor) string {
	author := w.admin
	if by == author {
		author = w.operator
	}
	body, _ := json.Marshal(map[string]any{"files": w.files()})
	got := w.send(request{http.MethodPost, "/api/v1/admin/plans", author.header(), body})
	if got.status != http.StatusCreated {
		w.Fatalf("proposing: %d %s", got.status, got.body)
	}
	return field(got.body, "id")
}

// files declare a SKU that does not exist yet.
func (w *fixture) files() map[string]string {
	return map[string]string{"sku.yaml": `apiVersion: gpuaas/v1alpha1
kind: SKU
metadata: {name: ` + w.unique("sku") + `}
spec: {gpuModel: Tesla T4, memoryGiB: 16, price: {currency: EUR, amountMinor: 35}}
`}
}

// valuesOf are those of fields whose name shows their meaning.
func (w *fixture) valuesOf(name string) (value any, known bool) {
	switch name {
	case "spec":
		return map[string]any{"sku": sku, "region": region, "gpus": 1}, true
	case "files":
		return w.files(), true
	case "region":
		return region, true
	case "gpus":
		return 1, true
	case "fingerprint":
		return w.fingerprint, true
	case "level":
		return "degraded", true
	case "until":
		return time.Now().Add(time.Hour).UTC().Format(time.RFC3339), true
	case "value":
		return 60, true
	}
	return nil, false
}

// faultReport is an open report of a tenant about one GPU. Operators cannot decide on a whole node.
func (w *fixture) faultReport(s *side) string {
	report := id()
	w.sql(`INSERT INTO fault_reports (id, allocation_id, org_id, node_id, gpu, message, reported_by)
		VALUES ($1, $2, $3, (SELECT id FROM nodes WHERE name = 'n1'), 'GPU-1', 'm', 'user:x')`, report, w.allocate(s), s.tenant)
	return report.String()
}

// quarantined is a node whose only slot is quarantined.
func (w *fixture) quarantined() string {
	name, slot := w.machine()
	w.sql(`UPDATE slots SET status = 'quarantined', reason = 'quarantined by an operator' WHERE id = $1`, slot)
	return name
}
