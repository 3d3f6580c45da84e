package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
)

const deadLetters = "/api/v1/admin/events/dead-letters"

// deadLetter writes a dead letter of an event of the outbox.
func (b *fixture) deadLetter(t *testing.T, subject string) string {
	t.Helper()
	b.sql(`INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, org_id, payload) VALUES (gen_random_uuid(), 'BILLING', $1, 'a', 1, $2, '{"balance_minor": 900}')`, subject, tenant)
	return read[string](b, `INSERT INTO dead_letters (id, consumer, event_id, stream, subject, error, attempts, dead_at)
		SELECT gen_random_uuid(), 'notification_relay_low_balance', event_id, stream, subject, 'no field', 10, now() FROM outbox_events WHERE subject = $1 RETURNING id::text`, subject)
}

// An operator reads a dead letter with its event, has it retried, and discards another one. Each is audited once, and a
// repeated request has no second effect.
func TestOperatorsResolveDeadLetters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.deadLetter(t, "billing.first"), b.deadLetter(t, "billing.second")
	w := b.do(t, call{method: "GET", path: deadLetters + "/" + first, token: tokenOperator})
	var one oapi.DeadLetter
	if err := json.Unmarshal(w.Body.Bytes(), &one); err != nil || w.Code != http.StatusOK || one.Status != oapi.Dead || one.Event == nil || one.Event.Payload["balance_minor"] != 900.0 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for n, c := range []struct {
		path, body string
		status     int
	}{
		{"/retry", `{"dead_letter_ids":["` + first + `"],"reason":"corrected"}`, http.StatusAccepted},
		{"/discard", `{"subject":"billing.second","reason":"not wanted"}`, http.StatusAccepted},
		{"/discard", `{"subject":"billing.second","reason":"again"}`, http.StatusNotFound},
		{"/retry", `{"dead_letter_ids":["` + uuid.NewString() + `"],"reason":"x"}`, http.StatusNotFound},
		{"/retry", `{"dead_letter_ids":[],"reason":"x"}`, http.StatusBadRequest},
		{"/retry", `{"stream":"OTHER","reason":"x"}`, http.StatusBadRequest},
		{"/retry", `{"consumer":"relay"}`, http.StatusBadRequest},
	} {
		for range 2 { // with the same key
			w := b.do(t, call{method: "POST", path: deadLetters + c.path, token: tokenOperator, body: c.body, header: map[string]string{"X-Idempotency-Key": fmt.Sprintf("key-%d", n)}})
			if w.Code != c.status {
				t.Errorf("%s %s: %d %s", c.path, c.body, w.Code, w.Body)
			}
		}
	}
	for id, want := range map[string]string{first: "retrying", second: "discarded"} {
		var one oapi.DeadLetter
		w := b.do(t, call{method: "GET", path: deadLetters + "/" + id, token: tokenOperator})
		if err := json.Unmarshal(w.Body.Bytes(), &one); err != nil || string(one.Status) != want {
			t.Errorf("%s: %v %s", want, err, w.Body)
		}
	}
	if n := read[int](b, `SELECT count(*) FROM audit_logs WHERE action LIKE 'dead_letter.%' AND org_id IS NULL AND target_urn LIKE '%:dead-letter:%'`); n != 2 {
		t.Errorf("%d audit rows", n)
	}
	for _, path := range []string{deadLetters, deadLetters + "/" + first, "/api/v1/admin/events/consumers"} {
		if w := b.do(t, call{method: "GET", path: path, token: tokenOwner}); w.Code != http.StatusForbidden {
			t.Errorf("a tenant reads %s: %d", path, w.Code)
		}
	}
}

func TestOperatorsRequestReplays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const path = "/api/v1/admin/events/consumers/notification_relay_low_balance/replay"
	for body, status := range map[string]int{
		`{"from_at":"2026-01-05T09:00:00Z","repeat":true,"reason":"mails were lost"}`:    http.StatusAccepted,
		`{"after_event_id":"` + uuid.NewString() + `","reason":"x"}`:                     http.StatusNotFound,
		`{"from_at":"yesterday","reason":"x"}`:                                           http.StatusBadRequest,
		`{"from_at":"2026-01-05T09:00:00Z"}`:                                             http.StatusBadRequest,
		`{"from_at":"2026-01-05T09:00:00Z","to_at":"2026-01-05T09:00:00Z","reason":"x"}`: http.StatusBadRequest,
	} {
		if w := b.do(t, call{method: "POST", path: path, token: tokenOperator, body: body}); w.Code != status {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if n := read[int](b, `SELECT count(*) FROM event_replays WHERE repeat AND reason = 'mails were lost' AND actor LIKE 'user:%'`); n != 1 {
		t.Errorf("%d replays", n)
	}
	b.sql(`INSERT INTO event_consumers SELECT (jsonb_populate_record(c, '{"name": "webhook_dispatch_billing"}')).* FROM event_consumers c WHERE name = 'notification_relay_low_balance'`)
	if w := b.do(t, call{method: "POST", path: "/api/v1/admin/events/consumers/webhook_dispatch_billing/replay", token: tokenOperator, body: `{"repeat":true,"reason":"x"}`}); w.Code != http.StatusBadRequest || problem(t, w).Details["field"] != "repeat" {
		t.Errorf("a repetition without effect: %d %s", w.Code, w.Body)
	}
	if w := b.do(t, call{method: "POST", path: "/api/v1/admin/events/consumers/none/replay", token: tokenOperator, body: `{"reason":"x"}`}); w.Code != http.StatusNotFound {
		t.Errorf("an unknown consumer: %d", w.Code)
	}
}

// A user reads and marks the own notifications only.
func TestNotificationsAreOfTheirUser(t *testing.T) {
	t.Parallel()
	b := setup(t)
	notify := func(token string) string {
		return read[string](b, `INSERT INTO notifications (id, user_id, org_id, kind, severity, urn, title, message)
			VALUES (gen_random_uuid(), $1, $2, 'low_balance', 'warning', 'u', 't', 'm') RETURNING id::text`, users[token], tenant)
	}
	own, other := notify(tokenOwner), notify(tokenMember)
	unread := func(token string) []oapi.Notification {
		t.Helper()
		var l oapi.NotificationList
		w := b.do(t, call{method: "GET", path: "/api/v1/notifications?unread=true", token: token})
		if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return l.Items
	}
	if l := unread(tokenOwner); len(l) != 1 || l[0].Id.String() != own {
		t.Errorf("%+v", l)
	}
	mark := func(body string) int {
		return b.do(t, call{method: "POST", path: "/api/v1/notifications/read", token: tokenOwner, body: body}).Code
	}
	if code := mark(`{"notification_ids":["` + other + `"]}`); code != http.StatusNotFound {
		t.Errorf("a foreign notification: %d", code)
	}
	if code := mark(`{}`); code != http.StatusNoContent {
		t.Errorf("all: %d", code)
	}
	if len(unread(tokenOwner)) != 0 || len(unread(tokenMember)) != 1 {
		t.Error("not exactly the own ones are read")
	}
}
