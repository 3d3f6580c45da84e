//go:build e2e

package acceptance

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
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

func TestAT100(t *testing.T) {
	proves(t)
	c := &receiver{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	r := request{method: "POST", path: "/api/v1/webhooks", body: map[string]any{"name": "at-100", "url": server.URL, "events": []string{"provisioning.*"}}}.send(t)
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
	kinds := func() (kinds []string) {
		var list struct {
			Items []struct {
				Kind        string `json:"kind"`
				ResourceURN string `json:"resource_urn"`
				Count       int    `json:"count"`
			}
		}
		get(t, "/api/v1/notifications?limit=200", &list)
		for _, n := range list.Items {
			if n.ResourceURN == a.URN {
				kinds = append(kinds, n.Kind)
				if n.Count != 1 {
					t.Errorf("%s was notified %d times", n.Kind, n.Count)
				}
			}
		}
		slices.Sort(kinds)
		return kinds
	}
	until(t, "both notifications are there", func() bool { return len(kinds()) >= 2 })
	if got := c.about(t, a, "at-100"); !slices.Equal(got, want) {
		t.Errorf("the webhook received %v", got)
	}
	if got := kinds(); !slices.Equal(got, []string{"provision_active", "releasing_completed"}) {
		t.Errorf("the user was notified of %v", got)
	}
}
