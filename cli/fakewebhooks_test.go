package cli

import (
	"encoding/json"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// webhooks serves one webhook with one delivery.
func (f *fake) webhooks(w http.ResponseWriter, r *http.Request, operation string) {
	hook := oapi.Webhook{
		Id: id(60), Urn: "u", Name: "deploy-bot", Url: "https://hooks.example.com/gpuaas", Events: []string{"provisioning.*"}, Format: "standard", Signature: "v1",
		Status: oapi.WebhookStatusFailing, FailingSince: &birth, Version: 1, CreatedAt: birth, UpdatedAt: birth,
	}
	secret, code, text := "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", 204, "the receiver responded 503"
	made := oapi.CreatedWebhook{
		Id: hook.Id, Urn: "u", Name: hook.Name, Url: hook.Url, Events: hook.Events, Format: "standard", Signature: "v1", Status: "active", Secret: &secret, Version: 1, CreatedAt: birth, UpdatedAt: birth,
	}
	delivery := oapi.WebhookDelivery{
		Id: id(61), Urn: "u", WebhookId: hook.Id, EventId: id(62), EventType: "provisioning.active", Status: "pending", NextAttemptAt: &birth, CreatedAt: birth, UpdatedAt: birth,
		Attempts: []oapi.WebhookAttempt{{AttemptedAt: birth, Result: "failed", LatencyMs: 41, Error: &text}},
	}
	var body struct {
		Events   []string
		Disabled *bool
		Mode     string
		FromAt   *string `json:"from_at"`
	}
	if r.Method != http.MethodGet {
		_ = json.NewDecoder(r.Body).Decode(&body)
	}
	switch operation {
	case "getWebhook", "createWebhook", "updateWebhook", "rotateWebhookSecret":
		w.Header().Set("ETag", `"1"`)
	}
	switch operation {
	case "listWebhooks":
		f.page(w, r, []any{hook}, 50)
	case "getWebhook":
		reply(w, http.StatusOK, hook)
	case "createWebhook":
		if len(body.Events) > 0 && body.Events[0] == "*" {
			f.problem(w, r, http.StatusBadRequest, "validation_error", `events: pattern "*" matches no event`, nil)
			return
		}
		w.Header().Set("Location", "/api/v1/webhooks/"+hook.Id.String())
		reply(w, http.StatusCreated, made)
	case "updateWebhook":
		if hook.Status = oapi.WebhookStatusActive; body.Disabled != nil && *body.Disabled {
			reason := oapi.WebhookDisabledReason("user")
			hook.Status, hook.DisabledAt, hook.DisabledReason = oapi.WebhookStatusDisabled, &birth, &reason
		}
		reply(w, http.StatusOK, hook)
	case "deleteWebhook":
		w.WriteHeader(http.StatusNoContent)
	case "listWebhookDeliveries":
		f.page(w, r, []any{delivery}, 50)
	case "resendWebhookDelivery":
		reply(w, http.StatusAccepted, delivery)
	case "testWebhook":
		reply(w, http.StatusOK, oapi.WebhookTestResult{Result: "delivered", MessageId: id(63).String(), StatusCode: &code, LatencyMs: 41})
	case "rotateWebhookSecret":
		reply(w, http.StatusOK, made)
	case "replayWebhook":
		n := 12
		if body.Mode == "all" && body.FromAt != nil {
			n = 40
		}
		reply(w, http.StatusAccepted, oapi.WebhookReplayAccepted{Deliveries: n})
	}
}
