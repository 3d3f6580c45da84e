package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// events serves one dead letter, one consumer and one notification.
func (f *fake) events(w http.ResponseWriter, r *http.Request, operation string) {
	letter := oapi.DeadLetter{
		Id: id(40), Urn: "u", Consumer: "notification_relay_low_balance", EventId: id(41), Stream: "BILLING", Subject: "billing.low_balance_warning", Error: "no field currency",
		Attempts: 10, Status: oapi.Dead, CreatedAt: birth, UpdatedAt: birth,
	}
	var body struct {
		Reason string
		Repeat bool
		FromAt *time.Time `json:"from_at"`
		ToAt   *time.Time `json:"to_at"`
	}
	if r.Method == http.MethodPost { // a PUT has another body
		_ = json.NewDecoder(r.Body).Decode(&body)
	}
	switch operation {
	case "listDeadLetters":
		items := []any{letter}
		if c := r.URL.Query().Get("consumer"); c != "" && c != letter.Consumer {
			items = []any{}
		}
		f.page(w, r, items, 50)
	case "getDeadLetter":
		letter.Event = &oapi.EventEnvelope{EventId: letter.EventId, EventType: letter.Subject, OccurredAt: birth, Version: "1.0", Payload: map[string]any{"balance_minor": 900}}
		reply(w, http.StatusOK, letter)
	case "retryDeadLetters", "discardDeadLetters":
		reply(w, http.StatusAccepted, oapi.DeadLetterCount{DeadLetters: 1})
	case "listConsumers":
		f.page(w, r, []any{oapi.Consumer{Name: letter.Consumer, Stream: "BILLING", Epoch: "e", Pending: 3, Redelivered: 1, LagSeconds: 90, CheckedAt: birth}}, 50)
	case "replayConsumer":
		if body.FromAt != nil && body.ToAt != nil && !body.FromAt.Before(*body.ToAt) {
			f.problem(w, r, http.StatusBadRequest, "validation_error", "from_at is not before to_at", nil)
			return
		}
		reply(w, http.StatusAccepted, oapi.ReplayAccepted{ReplayId: id(42), Consumer: letter.Consumer})
	case "listNotifications":
		items := []any{fakeNotification(43, "The balance is EUR 9.00.")}
		if f.notified.Load() > 1 {
			items = []any{fakeNotification(45, "Your allocation is active."), fakeNotification(44, expiring), items[0]}
		}
		f.page(w, r, items, 50)
	case "getNotificationPreferences", "getTenantNotificationPreferences":
		w.Header().Set("ETag", `"1"`)
		reply(w, http.StatusOK, preferences(strings.Contains(operation, "Tenant"), oapi.NotificationPreferencesWrite{}))
	case "putNotificationPreferences", "putTenantNotificationPreferences":
		w.Header().Set("ETag", `"2"`)
		var set oapi.NotificationPreferencesWrite
		_ = json.NewDecoder(r.Body).Decode(&set)
		if len(set.Choices) > 0 && set.Choices[0].Kind != "low_balance" {
			f.problem(w, r, http.StatusBadRequest, "validation_error", "no kind of notification", nil)
			return
		}
		reply(w, http.StatusOK, preferences(strings.Contains(operation, "Tenant"), set))
	case "testNotification":
		reply(w, http.StatusOK, oapi.NotificationTest{NotificationId: id(44), Channels: []oapi.NotificationTestResult{
			{Channel: "in_app", Sent: true}, {Channel: "email", Reason: new("no sign-in provider has verified the e-mail address")},
		}})
	case "listSuppressedAddresses":
		f.page(w, r, []any{oapi.SuppressedAddress{Id: id(45), Urn: "u", Address: "dev@dev.localhost", Reason: "550 no such user", CreatedAt: birth, UpdatedAt: birth}}, 50)
	case "liftSuppression":
		w.WriteHeader(http.StatusNoContent)
	case "markNotificationsRead":
		w.WriteHeader(http.StatusNoContent)
	}
}

// preferences are those of a user or a tenant after a change.
func preferences(tenant bool, set oapi.NotificationPreferencesWrite) oapi.NotificationPreferences {
	p := oapi.NotificationPreferences{Version: "1", TimeZone: set.TimeZone, QuietHours: set.QuietHours}
	value, source := oapi.NotificationValue("now"), oapi.NotificationChoiceInEffectSource("default")
	if len(set.Choices) > 0 {
		value, source = set.Choices[0].Value, map[bool]oapi.NotificationChoiceInEffectSource{true: "tenant", false: "user"}[tenant]
	}
	p.Kinds = []oapi.NotificationKind{{
		Kind: "low_balance", Title: "Balance is low", Severity: "warning", Audience: "owners", Enabled: true, Mutable: true,
		Channels: []oapi.NotificationChoiceInEffect{{Channel: "in_app", Value: "now", Source: "default"}, {Channel: "email", Value: value, Source: source}},
	}}
	return p
}

const expiring = "Your allocation expires in an hour."

func fakeNotification(n int, message string) oapi.Notification {
	return oapi.Notification{
		Id: id(n), Urn: "u", Kind: "low_balance", Severity: "warning", ResourceUrn: "u", Title: "Balance is low", Message: message, Count: 2, CreatedAt: birth, UpdatedAt: birth,
	}
}
