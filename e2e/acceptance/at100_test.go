//go:build e2e

package acceptance

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	netmail "net/mail"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// receiver stores the requests of a webhook about one allocation.
type receiver struct {
	mu  sync.Mutex
	all []received
}

type received struct {
	ID            string
	Type          string `json:"event_type"`
	CorrelationID string `json:"correlation_id"`
	Payload       struct {
		Allocation string `json:"allocation_id"`
	}
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	one := received{ID: r.Header.Get("webhook-id")}
	if err != nil || json.Unmarshal(body, &one) != nil || r.Header.Get("webhook-signature") == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, one)
}

// about returns the subjects that were received about an allocation.
func (c *receiver) about(t *testing.T, a allocation, correlation string) (subjects []string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		if one.Payload.Allocation == a.ID {
			subjects = append(subjects, one.Type)
			if one.CorrelationID != correlation {
				t.Errorf("%s has the correlation id %q", one.Type, one.CorrelationID)
			}
		}
	}
	slices.Sort(subjects)
	return subjects
}

// notifiedOf returns the kinds of the notifications about an allocation. Each has counted one event.
func notifiedOf(t *testing.T, a allocation, correlation string) (kinds []string) {
	t.Helper()
	var list struct {
		Items []struct {
			Kind          string `json:"kind"`
			ResourceURN   string `json:"resource_urn"`
			Count         int    `json:"count"`
			CorrelationID string `json:"correlation_id"`
		}
	}
	get(t, "/api/v1/notifications?limit=200", &list)
	for _, n := range list.Items {
		if n.ResourceURN != a.URN {
			continue
		}
		kinds = append(kinds, n.Kind)
		if n.Count != 1 || n.CorrelationID != correlation {
			t.Errorf("%s was notified %d times, with the correlation id %q", n.Kind, n.Count, n.CorrelationID)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// signIn signs the user in at the provider, which verifies the e-mail address of the user.
func signIn(t *testing.T, person string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Jar: jar}
	page, err := c.Get(profiles["default"].URL + "/sign-in")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	issuer, _ := services["issuer_url"].(string)
	back, err := c.PostForm(issuer+"/login", url.Values{"request": page.Request.URL.Query()["request"], "person": {person}})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Body.Close()
	var preferences struct {
		Email struct {
			Verified bool `json:"verified"`
		}
	}
	if get(t, "/api/v1/notifications/preferences", &preferences); !preferences.Email.Verified {
		t.Fatalf("the address is not verified: %d", back.StatusCode)
	}
}

// mailed returns the subjects of the e-mails with a correlation id. Each has an id of its own.
func mailed(t *testing.T, correlation string) (subjects []string) {
	t.Helper()
	inbox, _ := services["mail_url"].(string)
	ids := map[string]bool{}
	for _, link := range regexp.MustCompile(`href="(/[0-9]+)"`).FindAllStringSubmatch(page(t, inbox+"/"), -1) {
		m, err := netmail.ReadMessage(strings.NewReader(page(t, inbox+link[1]+"/raw")))
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get("X-Correlation-ID") != correlation {
			continue
		}
		subjects = append(subjects, m.Header.Get("Subject"))
		if id := m.Header.Get("Message-ID"); id == "" || ids[id] {
			t.Errorf("the e-mail %q is sent twice", id)
		}
		ids[m.Header.Get("Message-ID")] = true
	}
	slices.Sort(subjects)
	return subjects
}

func page(t *testing.T, address string) string {
	t.Helper()
	r, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", address, r.StatusCode, err)
	}
	return string(text)
}

func TestAT100(t *testing.T) {
	proves(t)
	signIn(t, "dev@dev.localhost")
	kinds := []string{"provision_active", "releasing_completed"} // e-mails of these are off by default
	choices := make([]map[string]string, len(kinds))
	for i, kind := range kinds {
		choices[i] = map[string]string{"kind": kind, "channel": "email", "value": "now"}
	}
	r := request{method: "PUT", path: "/api/v1/notifications/preferences", body: map[string]any{"choices": choices}}.send(t)
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	c := &receiver{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	r = request{method: "POST", path: "/api/v1/webhooks", body: map[string]any{"name": "at-100", "url": server.URL, "events": []string{"provisioning.*"}}}.send(t)
	if r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	}
	a := create(t, skuOfOther, "at-100")
	a.becomes(t, "active")
	r = request{
		method: "POST", path: allocations + "/" + a.ID + "/release", body: map[string]any{}, header: map[string]string{"X-Correlation-ID": "at-100"},
	}.send(t)
	if r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.body)
	}
	a.becomes(t, "released")

	want := []string{"provisioning.active", "provisioning.releasing.completed", "provisioning.releasing.requested", "provisioning.requested"}
	until(t, "the webhook has each event", func() bool { return len(c.about(t, a, "at-100")) >= len(want) })
	until(t, "both notifications are there", func() bool { return len(notifiedOf(t, a, "at-100")) >= len(kinds) })
	until(t, "both e-mails are there", func() bool { return len(mailed(t, "at-100")) >= len(kinds) })
	if got := c.about(t, a, "at-100"); !slices.Equal(got, want) {
		t.Errorf("the webhook received %v", got)
	}
	if got := notifiedOf(t, a, "at-100"); !slices.Equal(got, kinds) {
		t.Errorf("the user was notified of %v", got)
	}
	if got := mailed(t, "at-100"); !slices.Equal(got, []string{"Allocation is active", "Allocation was released"}) {
		t.Errorf("the e-mails are %v", got)
	}
}
