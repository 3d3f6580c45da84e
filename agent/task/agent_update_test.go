package task_test

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/agent/update"
	"github.com/gpuaas/gpuaas/protocol"
)

// The updater decides about the release. The handler begins its step first, and returns the decision in Run
// and in Resume.
func TestAnUpdateWithoutASignedReleaseIsRejected(t *testing.T) {
	t.Parallel()

	text, err := json.Marshal(protocol.AgentUpdateParams{Version: "1.2.3", Digest: strings.Repeat("0f", 32), Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := protocol.Envelope{Type: protocol.AgentUpdate, Params: text, Fence: 1}
	h := task.Of(protocol.AgentUpdate)
	for name, run := range map[string]func(*task.Execution) error{
		"run":    func(x *task.Execution) error { _, err := h.Run(t.Context(), x); return err },
		"resume": func(x *task.Execution) error { _, err := h.Resume(t.Context(), x); return err },
	} {
		r := newRecorder(t)
		x := r.execution(e)
		x.Updater = &update.Updater{
			Lib: t.TempDir(), State: t.TempDir(), Staging: t.TempDir(), Platform: "linux/amd64", Version: "1.0.0", Slot: "a",
			Keys: func() map[string][]byte { return nil }, Clock: x.Clock, Log: slog.New(slog.DiscardHandler),
		}
		if err := run(x); protocol.CodeOf(err) == "" || !slices.Equal(r.calls, []string{"begin replace"}) {
			t.Errorf("%s: %v, %q", name, err, r.calls)
		}
	}
}
