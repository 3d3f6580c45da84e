package agent

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/protocol"
)

// Only an update task waits for a build, and only until it is there.
func TestStage(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("ab", 32)
	signed := func(kind protocol.Type, p protocol.AgentUpdateParams) protocol.Signed {
		body, err := json.Marshal(map[string]any{"type": kind, "params": p})
		if err != nil {
			t.Fatal(err)
		}
		return protocol.Signed{Body: body}
	}
	for name, c := range map[string]struct {
		task   protocol.Signed
		socket string
		have   string
		busy   bool
		want   bool
	}{
		"another task":          {signed(protocol.Probe, protocol.AgentUpdateParams{}), "s", "", false, false},
		"no task":               {protocol.Signed{Body: []byte("{")}, "s", "", false, false},
		"no digest":             {signed(protocol.AgentUpdate, protocol.AgentUpdateParams{Digest: "../../etc", Size: 1}), "s", "", false, false},
		"no size":               {signed(protocol.AgentUpdate, protocol.AgentUpdateParams{Digest: digest}), "s", "", false, false},
		"too large":             {signed(protocol.AgentUpdate, protocol.AgentUpdateParams{Digest: digest, Size: protocol.MaxBinary + 1}), "s", "", false, false},
		"both halves in one":    {signed(protocol.AgentUpdate, protocol.AgentUpdateParams{Digest: digest, Size: 3}), "", "", true, false},
		"it is there":           {signed(protocol.AgentUpdate, protocol.AgentUpdateParams{Digest: digest, Size: 3}), "s", "abc", false, false},
		"it is being fetched":   {signed(protocol.AgentUpdate, protocol.AgentUpdateParams{Digest: digest, Size: 3}), "s", "", true, true},
		"another is in its way": {signed(protocol.AgentUpdate, protocol.AgentUpdateParams{Digest: digest, Size: 3}), "s", "abcd", true, true},
	} {
		n := newNode(Config{StateDir: t.TempDir(), Socket: c.socket, Log: slog.New(slog.DiscardHandler)})
		if c.busy {
			n.staging.busy = map[string]bool{digest: true}
		}
		if c.have != "" {
			if err := os.MkdirAll(n.buildsIn(), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(n.buildsIn(), digest), []byte(c.have), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := n.stage(t.Context(), c.task); got != c.want {
			t.Errorf("%s: waits %v", name, got)
		}
	}
}
