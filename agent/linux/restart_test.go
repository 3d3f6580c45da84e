package linux_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

// These two tests run in one container with a power failure between them, which package e2e/host simulates.
const restartFile = "/var/lib/gpuaas-restart.json"

func TestBeforeRestart(t *testing.T) { //nolint:paralleltest // one host
	h := node(t)
	if !slices.Contains(os.Args, "-test.run=TestBeforeRestart") {
		t.Skip("e2e/host simulates the power failure")
	}
	o := paramsOf(t, h, 1)
	o.UID, o.User = uids+50, fmt.Sprintf("u%d", uids+50) // so that it stays when this test has ended
	if _, err := carry(t.Context(), h, protocol.ProvisionUser, o); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/home/"+o.User+"/work", []byte("work"), 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(restartFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// After a start of the node no login works; the device stays bound, and dirty. The home's key is lost: the same task
// creates an empty home, and the tenant may log in.
func TestAfterRestart(t *testing.T) { //nolint:paralleltest // one host
	h := node(t)
	text, err := os.ReadFile(restartFile)
	if err != nil {
		t.Skip("e2e/host simulates the power failure")
	}
	var o protocol.AllocationParams
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { takeAway(h, o) })
	s, err := h.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wrong := strings.Join(step.Differences(s, o), "\n")
	for _, says := range []string{"keys: 0 login keys", "principals: certificates for 0", "home: the key of " + o.User + " was lost with the restart of the node", "network: " + o.User + " has no rules"} {
		if !strings.Contains(wrong, says) {
			t.Errorf("%q is not among\n%s", says, wrong)
		}
	}
	for _, says := range []string{"access:", "slice:", "account:"} {
		if strings.Contains(wrong, says) {
			t.Errorf("%s differs:\n%s", says, wrong)
		}
	}
	for _, d := range s.GPUs {
		if d.UUID == o.GPUs[0] && (!d.Dirty || len(d.Users) != 1) {
			t.Errorf("the tenant's GPU: %+v", d)
		}
	}
	if _, err := carry(t.Context(), h, protocol.ProvisionUser, o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/home/" + o.User + "/work"); err == nil {
		t.Error("a home whose key is gone still has what was in it")
	}
}
