package asyncapi_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/api/asyncapi"
)

const id = "01990000-0000-7000-8000-000000000001"

// good is a payload of every subject.
var good = map[string]map[string]any{
	"provisioning.requested":               {"sku": "h100", "gpus": 2, "region": "eu-1", "os_image": "", "requested_by": "user:" + id, "queued": false},
	"provisioning.active":                  {"slots": 2, "active_at": "2026-01-02T03:04:05Z", "price_per_hour_minor": 598, "currency": "EUR"},
	"provisioning.failed":                  {"reason": "AgentTimeout", "message": "", "attempts": 3},
	"provisioning.releasing.requested":     {"reason": "user", "requested_by": "user:" + id},
	"provisioning.releasing.completed":     {"released_at": "2026-01-02T03:04:05.678Z", "seconds": 60, "cost_minor": 9, "currency": "EUR"},
	"provisioning.release_failed":          {"release_failed_reason": "ScrubFailed", "attempts": 3, "slots": 2},
	"provisioning.force_release_requested": {"reason": "balance_depleted", "requested_by": "system:billing"},
	"billing.low_balance_warning":          {"balance_minor": 900, "threshold_minor": 1000, "burn_per_hour_minor": 250, "currency": "EUR"},
	"billing.auto_release_pending":         {"balance_minor": 90, "runway_minutes": 21, "releases_at": "2026-01-02T03:04:05Z", "allocation_ids": []string{id}, "currency": "EUR"},
	"billing.auto_release_cleared":         {"balance_minor": 9000, "currency": "EUR"},
	"billing.balance_adjusted":             {"transfer_id": id, "user_id": id, "amount_minor": -5, "currency": "EUR", "reason": "double top-up", "adjusted_by": "user:" + id},
	"payments.balance_credited":            {"payment_session_id": id, "transfer_id": id, "amount_minor": 2500, "currency": "EUR"},
	"payments.refunded":                    {"refund_id": id, "route": "card", "amount_minor": 2500, "currency": "EUR"},
	"payments.disputed":                    {"dispute_id": "du_1", "stage": "open", "reason": "fraudulent", "amount_minor": 2500, "currency": "EUR"},
	"payments.auto_topup_changed":          {"auto_topup_id": id, "status": "active", "reason": ""},
	"payments.auto_topup_paused":           {"auto_topup_id": id, "status": "paused", "reason": "declined"},
	"fleet.revision_applied":               revision("applied"),
	"fleet.revision_waiting":               revision("waiting_approval"),
	"fleet.revision_rejected":              revision("invalid"),
	"fleet.plan_decided":                   {"plan_id": id, "status": "approved", "hash": "9f3c", "source": "fleet", "commit": "9f3c2d1e", "summary": "Plan: 1 to create", "decided_by": "user:" + id, "reason": ""},
	"fleet.object_changed":                 {"object_id": id, "kind": "Node", "name": "n7", "change": "put", "generation": 3, "version": 5, "changed_by": "user:" + id, "reason": ""},
	"fleet.drift_opened":                   drift(),
	"fleet.drift_closed":                   drift(),
	"provisioning.expiring":                {"allocation_id": id, "expires_at": "2026-01-05T12:00:00Z"},
	"provisioning.release_scheduled":       {"allocation_id": id, "reason": "node_drain", "message": "board swap", "deadline_at": "2026-01-05T12:00:00Z", "requested_by": "user:" + id},
	"provisioning.release_cancelled":       {"allocation_id": id, "reason": "node_drain", "message": "its node need not be empty", "requested_by": "user:" + id},
	"provisioning.degraded":                {"allocation_id": id, "cause": "observation_stale", "since": "2026-01-05T12:00:00Z", "charged": false},
	"provisioning.recovered":               {"allocation_id": id, "cause": "node_unhealthy", "charged_from": "2026-01-05T12:00:00Z"},
	"provisioning.access_lost":             {"user_id": id, "scope": "project", "reason": "membership_removed"},
	"fleet.node_enrolled":                  {"node_id": id, "name": "n7", "region": "eu-north"},
	"fleet.node_draining":                  {"node_id": id, "name": "n7", "owner": "user:" + id, "reason": "board swap", "deadline_at": "2026-01-05T12:00:00Z"},
	"fleet.node_drained":                   {"node_id": id, "name": "n7", "owner": "user:" + id, "reason": "board swap", "deadline_at": "2026-01-05T12:00:00Z"},
	"fleet.node_drain_cancelled":           {"node_id": id, "name": "n7", "owner": "", "reason": ""},
	"fleet.node_retiring":                  {"node_id": id, "reason": "end of life", "retires_at": "2026-03-01T00:00:00Z"},
	"fleet.node_health_changed":            {"node_id": id, "name": "n7", "health": "degraded", "previous_health": "healthy", "reason": "GPU 1 is unhealthy: xid 48: double-bit memory error"},
	"fleet.slot_quarantined":               {"node_id": id, "name": "n7", "slot_id": id, "gpu": "GPU-1", "reason": "GPU 1: xid 48: double-bit memory error"},
	"fleet.agent_update_stopped":           {"version": "v1.4.0", "ring": 0, "nodes": 40, "has": 1, "lost": 2, "message": "2 of 2 nodes of ring 0 were lost: no report of v1.4.0 was accepted within 45s"},
	"fleet.mass_action_stopped":            {"trip_id": id, "blocked": 2, "allowed": 2, "fleet": 10, "reason": "n7: GPU 1: slowed down by heat"},
	"payments.reconcile_failed":            {"payment_session_id": id, "reason": "amount"},
	"billing.storage_deletion_scheduled":   {"balance_minor": -3, "currency": "EUR", "stored_bytes": 9, "deletes_at": "2026-01-02T03:04:05Z", "days_left": 14},
	"billing.storage_deletion_cancelled":   {"balance_minor": 9000, "currency": "EUR"},
	"billing.storage_deleted":              {"balance_minor": -3, "currency": "EUR", "deleted_bytes": 9, "deleted_objects": 2},
	"billing.balance_depleted":             {"balance_minor": -3, "currency": "EUR", "allocation_ids": []string{id}},
}

func revision(status string) map[string]any {
	return map[string]any{
		"revision": 7, "source": "fleet", "commit": "9f3c2d1e", "status": status, "plan_id": id, "author": "ada@example.com", "created": 1, "changed": 0, "deleted": 0,
		"adopted": 0, "findings": []string{"nodes.cue:3:1: unknown field"}, "approval_reasons": []string{"prune_cap"},
	}
}

func drift() map[string]any {
	return map[string]any{
		"drift_id": id, "kind": "Node", "object_id": id, "name": "n7", "field": "gpus", "desired": "8", "observed": "7", "policy": "heal", "owner": "operator",
		"cause": "hardware", "opened_at": "2026-01-02T03:04:05Z", "cost_per_hour_minor": 299, "currency": "EUR",
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func payloadOf(subject string) map[string]any {
	p := maps.Clone(good[subject])
	p["urn"] = "core42:aicloud:-:" + id + ":" + id + ":allocation:" + id
	p["tenant_id"] = id
	if strings.HasPrefix(subject, "fleet.") {
		p["tenant_id"] = nil // nor does the fleet belong to one
	}
	if strings.HasPrefix(subject, "provisioning.") {
		p["project_id"], p["allocation_id"] = id, id
		if subject == "provisioning.access_lost" {
			delete(p, "allocation_id") // it is about a project
		}
	} else {
		p["project_id"] = nil // a balance belongs to the tenant
	}
	return p
}

func TestEverySubjectTakesItsPayloadAndNoOther(t *testing.T) {
	t.Parallel()
	contract, err := asyncapi.Load()
	if err != nil {
		t.Fatal(err)
	}
	for subject := range good {
		if err := asyncapi.Validate(subject, encode(t, payloadOf(subject))); err != nil {
			t.Error(err)
		}
		message := map[string]any{
			"event_id": id, "event_type": subject, "occurred_at": "2026-01-02T03:04:05Z",
			"version": "1.0", "correlation_id": "", "payload": payloadOf(subject),
		}
		if err := contract.Message(subject, encode(t, message)); err != nil {
			t.Error(err)
		}
		message["event_type"] = "other"
		if err := contract.Message(subject, encode(t, message)); err == nil {
			t.Errorf("%s accepts the envelope of another type", subject)
		}
		for field := range payloadOf(subject) {
			p := payloadOf(subject)
			delete(p, field)
			if err := contract.Payload(subject, encode(t, p)); err == nil {
				t.Errorf("%s does without %s", subject, field)
			}
		}
		p := payloadOf(subject)
		p["surprise"] = 1
		if err := contract.Payload(subject, encode(t, p)); err == nil {
			t.Errorf("%s accepts a field that is not in the contract", subject)
		}
	}
	if err := asyncapi.Validate("provisioning.unheard", []byte("{}")); err == nil {
		t.Error("an unknown subject is valid")
	}
	letter := map[string]any{"error": "nats: maximum payload exceeded", "consumer": "relay", "attempts": 10, "envelope": map[string]any{
		"event_id": id, "event_type": "x", "occurred_at": "2026-01-02T03:04:05Z", "version": "1.0", "correlation_id": "", "payload": nil,
	}}
	if err := contract.Message("dlq.provisioning.provisioning.failed", encode(t, letter)); err != nil {
		t.Error(err)
	}
}

// The document contains each fact in three places, which must be equal.
func TestChannelsOperationsAndMessagesAgree(t *testing.T) {
	t.Parallel()
	type ref struct {
		Ref string `yaml:"$ref"`
	}
	var doc struct {
		AsyncAPI string `yaml:"asyncapi"`
		Channels map[string]struct {
			Address  string
			Messages map[string]ref
		}
		Operations map[string]struct {
			Action   string
			Channel  ref
			Messages []ref
		}
		Components struct {
			Messages map[string]struct{ Name string }
		}
	}
	if err := yaml.Unmarshal(asyncapi.Document, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.AsyncAPI != "3.0.0" || len(doc.Channels) != len(good)+1 || len(doc.Operations) != len(doc.Channels) {
		t.Errorf("version %s, %d channels, %d operations", doc.AsyncAPI, len(doc.Channels), len(doc.Operations))
	}
	for name, channel := range doc.Channels {
		for key, message := range channel.Messages {
			if message.Ref != "#/components/messages/"+key {
				t.Errorf("channel %s refers to %s as %s", name, message.Ref, key)
			}
			if m := doc.Components.Messages[key]; m.Name != channel.Address && m.Name != strings.Split(channel.Address, ".")[0] {
				t.Errorf("channel %s carries %q", channel.Address, m.Name)
			}
		}
	}
	for name, operation := range doc.Operations {
		channel := strings.TrimPrefix(operation.Channel.Ref, "#/channels/")
		if _, found := doc.Channels[channel]; !found || operation.Action != "send" || len(operation.Messages) != 1 {
			t.Errorf("operation %s is not about a channel: %+v", name, operation)
		}
	}
}
