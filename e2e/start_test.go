//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/e2e/check"
)

func TestSecondUpFails(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	h.start()
	got := h.cli("up", "--headless", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--issuer-listen", "127.0.0.1:0", "--payments-listen", "127.0.0.1:0", "--mail-listen", "127.0.0.1:0",
		"--data-dir", h.data(), "--profile-name", "second")
	if got.code == 0 || !strings.Contains(got.err, "already runs on "+h.data()) {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	if _, err := h.profile("second"); err == nil {
		t.Error("the second server wrote a profile")
	}
	scenario(t, h) // the first has not suffered
	if h.starts != 1 {
		t.Error("the first one ended")
	}
}

func TestTakenPortMoves(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	h := newInstallation(t, "--listen", taken.Addr().String())
	h.start()
	p, err := h.profile("default")
	must(t, err)
	text, err := os.ReadFile(h.path("ready"))
	must(t, err)
	var ready struct{ URL string }
	must(t, json.Unmarshal(text, &ready))
	if strings.HasSuffix(p.URL, taken.Addr().String()) || ready.URL != p.URL {
		t.Errorf("profile %s, ready file %s, other port %s", p.URL, ready.URL, taken.Addr())
	}
	scenario(t, h)
}

// A simulated node that is declared while the installation runs gets an agent, and becomes active.
func TestANodeThatIsDeclaredLaterIsStarted(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	h.start()
	var node struct{ Lifecycle string }
	body := map[string]any{"name": "later-1", "sku": "t4", "region": "eu-dev-1", "gpus": 4, "onboarding": "simulated", "hardware": "t4-4"}
	if status, err := h.callAs("default-admin", "POST", "/api/v1/admin/nodes", "later", body, &node); err != nil || status != 201 {
		t.Fatalf("declared: %d, %v", status, err)
	}
	until(t, patience, "the node is active", func() error {
		_, err := h.callAs("default-admin", "GET", "/api/v1/admin/nodes/later-1", "", nil, &node)
		if err == nil && node.Lifecycle != "active" {
			err = fmt.Errorf("it is %s", node.Lifecycle)
		}
		return err
	})
}

func TestCtrlCKeepsData(t *testing.T) {
	t.Parallel()
	h := newInstallation(t, "--agents=processes")
	h.empty = true
	h.start()
	kept := h.create(t, "h100-sxm", 4)
	h.becomes(t, kept, "active")
	h.stop()
	if code := h.up.ProcessState.ExitCode(); code != 0 {
		t.Errorf("Ctrl-C ended up with %d", code)
	}
	if left := h.processes(); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	if _, err := os.Stat(h.path("ready")); err == nil {
		t.Error("the ready file still reports readiness")
	}
	h.start()
	h.becomes(t, kept, "active")
	h.converges(t, patience, check.Expect{Live: []string{kept.Name}})
	h.release(t, kept)
	h.becomes(t, kept, "released")
	h.stop()
	h.start()
	h.converges(t, patience, check.Expect{Rested: true})
}

func TestTour(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	// Its installation is created in here, so that this test finds its leftovers.
	h.temp = h.path("tmp")
	must(t, os.Mkdir(h.temp, 0o711))
	must(t, os.Chmod(h.temp, 0o711))
	got := h.cli("tour")
	if got.code != 0 {
		t.Errorf("exit %d\n%s\n%s", got.code, got.out, got.err)
	}
	if left, err := os.ReadDir(h.temp); err != nil || len(left) > 0 || len(h.processes()) > 0 {
		t.Errorf("the tour left %v and %v, %v", left, h.processes(), err)
	}
}
