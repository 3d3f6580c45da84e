package simssh_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/protocol"
)

// A shell sees its mounts, or a line about their absence. They end with the allocation, before its home is removed: the
// removal of a home with a mount would remove the stored objects.
func TestMountsInAShell(t *testing.T) {
	t.Parallel()
	n := setup(t, protocol.Access{})
	text, err := json.Marshal(sim.Mounts{
		Storage: protocol.Storage{Endpoint: "http://127.0.0.1:9", Bucket: uuid.NewString(), Mounts: []protocol.Mount{{At: "work/data"}}},
		Keys:    []protocol.MountKey{{At: "work/data", AccessKeyID: "GK1", Secret: "s1"}},
	})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(n.dir, "mounts-t-1.json"), text, 0o600))
	run := func(command string) string {
		client, err := n.dial("t-1", n.registered)
		must(t, err)
		defer client.Close()
		session, err := client.NewSession()
		must(t, err)
		out, _ := session.CombinedOutput(command)
		return string(out)
	}
	out := run("ls work/data; pwd")
	home := strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:])
	mounts := func() (found []string) {
		table, err := (&hostos.OS{}).Mounts()
		must(t, err)
		for at, m := range table {
			if m.Kind == "fuse.rclone" && strings.HasPrefix(at, home) {
				found = append(found, at)
			}
		}
		return found
	}
	switch {
	case strings.Contains(out, "shows no stored objects"):
		if len(mounts()) > 0 {
			t.Errorf("%s: %q", out, mounts())
		}
	case len(mounts()) != 1 || !strings.Contains(out, "Input/output error"):
		t.Fatalf("%s: %q", out, mounts())
	default:
		t.Log("mounted for real")
	}
	if again := run("ls work/data"); strings.Contains(again, "not mounted") {
		t.Error(again)
	}
	must(t, sim.Edit(sim.Path(n.dir), func(h *sim.Host) error {
		delete(h.Accounts, "t-1")
		return nil
	}))
	for range 100 {
		if _, err := os.Stat(home); err != nil && len(mounts()) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("after the allocation: %q, and the home is there", mounts())
}
