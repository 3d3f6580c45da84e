package cli

import (
	"encoding/json"
	"net/http"
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
	if r.Method == http.MethodPost {
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
		f.page(w, r, []any{oapi.Notification{
			Id: id(43), Urn: "u", Kind: "low_balance", Severity: "warning", ResourceUrn: "u", Title: "Balance is low", Message: "The balance is EUR 9.00.", Count: 2,
			CreatedAt: birth, UpdatedAt: birth,
		}}, 50)
	case "markNotificationsRead":
		w.WriteHeader(http.StatusNoContent)
	}
}
