//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestPrometheus scrapes an installation with a real Prometheus. Each rule and each page can be evaluated, an alert fires
// with its condition, and the command of its runbook resolves it.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("prometheus is not installed: scripts/install-deps.sh --observability")
	}
	h := newInstallation(t, "--observability")
	h.start()
	text, err := os.ReadFile(h.path("ready"))
	must(t, err)
	var ready struct {
		URL string `json:"prometheus_url"`
	}
	must(t, decode(string(text), &ready))
	get := func(path string) (string, error) {
		r, err := http.Get(ready.URL + path) //nolint:noctx // of a test
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err == nil && r.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %d %s", path, r.StatusCode, body)
		}
		return string(body), err
	}

	until(t, patience, "the overview has values", func() error {
		time.Sleep(200 * time.Millisecond)
		body, err := get("/consoles/overview.html")
		if err == nil && !strings.Contains(body, "<td>version=") {
			err = fmt.Errorf("no version in %.2000s", body)
		}
		return err
	})
	for _, name := range []string{"billing", "database", "events", "fleet", "git", "jobs", "reconciler", "storage", "tenants", "terminal"} {
		if body, err := get("/consoles/" + name + ".html"); err != nil || !strings.Contains(body, "</html>") {
			t.Errorf("%s: %v", name, err)
		}
	}
	until(t, patience, "each rule is evaluated", func() error {
		time.Sleep(200 * time.Millisecond)
		body, err := get("/api/v1/rules")
		if err == nil && (!strings.Contains(body, "GPUaaSWatchdog") || strings.Contains(body, `"health":"err"`) || strings.Contains(body, `"health":"unknown"`)) {
			err = fmt.Errorf("%.3000s", body)
		}
		return err
	})
	alert := func() (bool, error) {
		body, err := get(`/api/v1/query?query=ALERTS%7Balertname%3D%22GPUaaSMassActionBreaker%22%2Calertstate%3D%22firing%22%7D`)
		return strings.Contains(body, `"GPUaaSMassActionBreaker"`), err
	}
	if fires, err := alert(); err != nil || fires {
		t.Fatalf("the alert fires before its condition: %v", err)
	}
	db, err := h.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	_, err = db.Exec(t.Context(), `INSERT INTO breaker_trips SELECT gen_random_uuid(), now(), 3, 2, 10, 'xid 79', ARRAY[gen_random_uuid()]`)
	must(t, err)
	until(t, patience, "the alert fires", func() error {
		time.Sleep(200 * time.Millisecond)
		fires, err := alert()
		if err == nil && !fires {
			err = fmt.Errorf("it does not fire")
		}
		return err
	})
	if got := h.cli("--profile", "default-operator", "node", "clear-breaker", "--reason", "the cooling of row 3 works again"); got.code != 0 {
		t.Fatalf("%d %s", got.code, got.err)
	}
	until(t, patience, "the alert is resolved", func() error {
		time.Sleep(200 * time.Millisecond)
		fires, err := alert()
		if err == nil && fires {
			err = fmt.Errorf("it still fires")
		}
		return err
	})
}
