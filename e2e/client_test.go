//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// allocation contains the fields of an allocation in the API.
type allocation struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	NodeID string `json:"node_id"`
}

// caller opens a connection for each request, so that no connection outlives a killed server.
var caller = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// call sends one request as the development user to the current address of up.
func (h *installation) call(method, path, key string, body, into any) (status int, err error) {
	return h.callAs("default", method, path, key, body, into)
}

func (h *installation) callAs(who, method, path, key string, body, into any) (status int, err error) {
	p, err := h.profile(who)
	if err != nil {
		return 0, err
	}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	r, err := http.NewRequest(method, p.URL+path, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+p.Token)
	if p.Project != "" {
		r.Header.Set("X-Project-ID", p.Project)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("X-Idempotency-Key", key)
	}
	reply, err := caller.Do(r)
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	if reply.StatusCode == http.StatusTooManyRequests && method == http.MethodGet {
		// The tests read more often than a user may, and a rejected read has no other meaning for them.
		time.Sleep(time.Second)
		return h.callAs(who, method, path, key, body, into)
	}
	answer, err := io.ReadAll(reply.Body)
	if err != nil {
		return 0, err
	}
	if reply.StatusCode >= 300 {
		return reply.StatusCode, fmt.Errorf("%s %s: %d %s", method, path, reply.StatusCode, answer)
	}
	return reply.StatusCode, json.Unmarshal(answer, into)
}

// syncSources starts a sync of each Git source, which would otherwise begin at its next interval. A failure only costs
// that time: the request itself can reach the point that kills the server.
func (h *installation) syncSources() {
	var list struct{ Items []struct{ Name string } }
	_, _ = h.callAs("default-operator", http.MethodGet, "/api/v1/admin/git-sources", "", nil, &list)
	for _, s := range list.Items {
		_, _ = h.callAs("default-operator", http.MethodPost, "/api/v1/admin/git-sources/"+s.Name+"/sync", "", nil, &struct{}{})
	}
}

// stubborn repeats a request with one idempotency key until it is answered. A client does the same
// if the effect of its first attempt is unknown.
func (h *installation) stubborn(t testing.TB, method, path, key string, body any, want int) (a allocation) {
	t.Helper()
	until(t, patience, method+" "+path+" "+key, func() error {
		h.revive()
		status, err := h.call(method, path, key, body, &a)
		if err == nil && status != want {
			err = fmt.Errorf("%d instead of %d", status, want)
		}
		return err
	})
	return a
}

// patience is the time limit of every recovery after a fault. The specified limit is three sweeps
// of 30 s. River rescues the job of a killed worker in a check every 30 s.
const patience = time.Minute

func (h *installation) create(t testing.TB, sku string, gpus int) allocation {
	t.Helper()
	h.names++
	name := fmt.Sprintf("a-%d", h.names)
	return h.stubborn(t, "POST", "/api/v1/allocations", "create-"+name, map[string]any{"sku": sku, "gpus": gpus, "name": name}, 201)
}

// queue requests slots that are claimed by others and returns the queued allocation.
func (h *installation) queue(t testing.TB, sku string, gpus int) allocation {
	t.Helper()
	h.names++
	name := fmt.Sprintf("a-%d", h.names)
	a := h.stubborn(t, "POST", "/api/v1/allocations", "queue-"+name, map[string]any{"sku": sku, "gpus": gpus, "name": name, "queue": true}, 201)
	var shown struct {
		Pending struct {
			Position int
			Filters  []struct{ Filter string }
			Fits     []struct{ Text string } `json:"suggestions"`
		}
	}
	if _, err := h.call("GET", "/api/v1/allocations/"+a.ID, "", nil, &shown); err != nil || shown.Pending.Position != 1 || len(shown.Pending.Filters) != 1 || len(shown.Pending.Fits) != 1 {
		t.Errorf("a waiting request is %+v: %v", shown, err)
	}
	return a
}

func (h *installation) release(t testing.TB, a allocation) {
	t.Helper()
	h.stubborn(t, "POST", "/api/v1/allocations/"+a.ID+"/release", "release-"+a.ID, map[string]any{}, 202)
}

func (h *installation) becomes(t testing.TB, a allocation, status string) bool {
	t.Helper()
	return until(t, patience, a.Name+" becomes "+status, func() error {
		h.revive()
		time.Sleep(5 * pollEvery) // below the rate limit
		var now allocation
		if _, err := h.call("GET", "/api/v1/allocations/"+a.ID, "", nil, &now); err != nil {
			return err
		}
		if now.Status != status {
			return fmt.Errorf("%s is %s", a.Name, now.Status)
		}
		return nil
	})
}
