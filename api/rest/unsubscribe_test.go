package rest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/oapi"
	mails "github.com/gpuaas/gpuaas/platform/notification/mail"
)

// The page of a link shows a form and changes nothing. One click of a mail program, and the form, end the e-mails without a sign-in.
func TestUnsubscribePage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	user, key := users[tokenOwner], mails.NewKey()
	b.sql(`INSERT INTO notification_preferences (id, scope, link_key) VALUES ($1, 'user', $2)`, user, key)
	link := mails.Link{User: user.UUID, Kinds: []string{"low_balance"}}.Token(key, emailOf(tokenOwner))
	send := func(method, link, form string) *httptest.ResponseRecorder {
		t.Helper()
		return b.visit(t, method, mails.UnsubscribePath+"?link="+url.QueryEscape(link), form, func(r *http.Request) { r.Header.Del("Origin") })
	}
	choices := func() string {
		return read[string](b, `SELECT choices::text FROM notification_preferences WHERE id = $1`, user)
	}
	if w := send("GET", link, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Balance is low") || choices() != "{}" {
		t.Errorf("%d %s, %s", w.Code, w.Body, choices())
	}
	for _, wrong := range []string{"", "x", link[:len(link)-3] + "AAA"} {
		if w := send("POST", wrong, "List-Unsubscribe=One-Click"); w.Code != http.StatusNotFound && w.Code != http.StatusBadRequest || choices() != "{}" {
			t.Errorf("%q: %d, %s", wrong, w.Code, choices())
		}
	}
	for range 2 { // the second changes nothing
		if w := send("POST", link, "List-Unsubscribe=One-Click"); w.Code != http.StatusOK || choices() != `{"low_balance": {"email": "off"}}` {
			t.Errorf("%d %s, %s", w.Code, w.Body, choices())
		}
	}
	if n := read[int](b, `SELECT count(*) FROM audit_logs WHERE action = 'user.unsubscribe'`); n != 1 {
		t.Errorf("%d audit rows", n)
	}
}

const preferencesPath = "/api/v1/notifications/preferences"

// Preferences are replaced as a whole, at the version that was read, and the response names the source of each value.
func TestPreferences(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sql(`UPDATE users SET oidc_issuer = 'https://idp.test' WHERE id = $1`, users[tokenOwner])
	emailOfKind := func(p oapi.NotificationPreferences, kind string) oapi.NotificationChoiceInEffect {
		for _, k := range p.Kinds {
			if k.Kind == kind {
				return k.Channels[1]
			}
		}
		t.Fatalf("no %s", kind)
		return oapi.NotificationChoiceInEffect{}
	}
	request := func(method, path, body string, header map[string]string, status int) (p oapi.NotificationPreferences, etag string) {
		t.Helper()
		w := b.do(t, call{method: method, path: path, token: tokenOwner, body: body, header: header})
		if w.Code != status {
			t.Fatalf("%s %s %s: %d %s", method, path, body, w.Code, w.Body)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		return p, w.Header().Get("ETag")
	}
	first, etag := request("GET", preferencesPath, "", nil, http.StatusOK)
	if first.Email == nil || !first.Email.Verified || first.Email.Enabled || emailOfKind(first, "low_balance").Source != "default" {
		t.Errorf("%+v", first)
	}
	body := `{"time_zone":"Europe/Berlin","quiet_hours":{"start":"22:00","end":"07:00"},"choices":[{"kind":"low_balance","channel":"email","value":"daily"}]}`
	second, _ := request("PUT", preferencesPath, body, map[string]string{"If-Match": etag}, http.StatusOK)
	if got := emailOfKind(second, "low_balance"); got.Value != "daily" || got.Source != "user" || second.QuietHours == nil || second.QuietHours.End != "07:00" {
		t.Errorf("%+v", second)
	}
	request("PUT", preferencesPath, body, map[string]string{"If-Match": etag}, http.StatusPreconditionFailed)
	request("PUT", preferencesPath, `{"choices":[{"kind":"balance_depleted","channel":"in_app","value":"off"}]}`, nil, http.StatusUnprocessableEntity)
	for _, wrong := range []string{
		`{}`, `{"choices":[{"kind":"none","channel":"email","value":"off"}]}`, `{"choices":[{"kind":"low_balance","channel":"sms","value":"off"}]}`,
		`{"choices":[],"time_zone":"Mars"}`, `{"choices":[],"quiet_hours":{"start":"25:00","end":"07:00"}}`, `{"choices":[],"quiet_hours":{"start":"07:00","end":"07:00"}}`,
		`{"choices":[{"kind":"low_balance","channel":"email","value":"off"},{"kind":"low_balance","channel":"email","value":"now"}]}`,
	} {
		request("PUT", preferencesPath, wrong, nil, http.StatusBadRequest)
	}
	const ofTenant = "/api/v1/tenant/notifications/preferences"
	if w := b.do(t, call{method: "PUT", path: ofTenant, token: tokenMember, body: `{"choices":[]}`}); w.Code != http.StatusForbidden {
		t.Errorf("a member writes the defaults of the tenant: %d", w.Code)
	}
	request("PUT", ofTenant, `{"choices":[{"kind":"expiring","channel":"email","value":"hourly"}]}`, nil, http.StatusOK)
	last, _ := request("GET", preferencesPath, "", nil, http.StatusOK)
	if got := emailOfKind(last, "expiring"); got.Value != "hourly" || got.Source != "tenant" {
		t.Errorf("%+v", got)
	}
}
