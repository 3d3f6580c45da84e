package rest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// A tenant requests and reads the bundles of its own allocations, and an operator all of them with the reason of a failure.
func TestEvidenceOfATenantIsItsOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	own := b.allocate(t)
	create := func(token, id string) (made oapi.EvidenceBundle, status int) {
		w := b.do(t, call{method: "POST", path: allocations + "/" + id + "/evidence", token: token})
		if w.Code == http.StatusAccepted {
			must(t, json.Unmarshal(w.Body.Bytes(), &made))
		}
		return made, w.Code
	}
	made, status := create(tokenOwner, own.Id.String())
	if status != http.StatusAccepted || made.About != own.Urn || made.Status != oapi.EvidenceStatusPending || made.TenantId == nil || *made.TenantId != tenant.UUID {
		t.Fatalf("%d %+v", status, made)
	}
	for token, want := range map[string]int{tokenOperator: http.StatusAccepted, tokenMember: http.StatusForbidden, tokenStranger: http.StatusForbidden} {
		if _, got := create(token, own.Id.String()); got != want {
			t.Errorf("%s: %d, want %d", token, got, want)
		}
	}

	foreign, platform := uuid.New(), uuid.New()
	b.sql(`INSERT INTO evidence_bundles (id, org_id, kind, about, subject, cause, requested_by) VALUES ($1, gen_random_uuid(), 'allocation', 'foreign', 's', 'c1', 'u')`, foreign)
	b.sql(`INSERT INTO evidence_bundles (id, kind, about, subject, cause, requested_by, status, failure_code, failure_message)
		VALUES ($1, 'revision', 'platform', '7', 'c2', 'u', 'failed', 'unavailable', 'the object store is away')`, platform)
	read := func(token, path string) (string, int) {
		w := b.do(t, call{method: "GET", path: "/api/v1/evidence" + path, token: token})
		return w.Body.String(), w.Code
	}
	if text, _ := read(tokenOwner, ""); !strings.Contains(text, made.Id.String()) || strings.Contains(text, foreign.String()) || strings.Contains(text, platform.String()) {
		t.Errorf("the list of a tenant: %s", text)
	}
	for _, id := range []uuid.UUID{foreign, platform} {
		if text, status := read(tokenOwner, "/"+id.String()); status != http.StatusNotFound {
			t.Errorf("a tenant reads %s: %d %s", id, status, text)
		}
	}
	if text, _ := read(tokenOperator, "?status=failed&kind=revision&about=7"); !strings.Contains(text, platform.String()) || !strings.Contains(text, `"failure_message":"the object store is away"`) || strings.Contains(text, made.Id.String()) {
		t.Errorf("failed bundles: %s", text)
	}
	if text, status := read(tokenOperator, "?status=wrong"); status != http.StatusBadRequest {
		t.Errorf("an unknown status: %d %s", status, text)
	}
}
