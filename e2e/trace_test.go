//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestTrace checks that timelines of a running installation are complete: of an allocation from the request
// to the node's report, and of a Git declaration from the commit to the observed state.
func TestTrace(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	h.start()
	a := h.create(t, "t4", 2)
	h.becomes(t, a, "active")
	for thing, want := range map[string][]string{
		"alloc/" + a.Name: {"request", "desired", "plan", "job", "task", "observed"},
		"sku/t4":          {"desired", "plan", "job", "observed"},
		// The development fleet enrols each declared node by a token; that request is audited.
		"node/gpu-t4-01": {"desired", "plan", "job", "observed", "request"},
	} {
		until(t, patience, thing+" has a timeline", func() error {
			time.Sleep(commandPause)
			return h.hasStages(thing, want)
		})
	}
	h.release(t, a)
	h.becomes(t, a, "released")
}

// stages: each stage begins after the one that leads to it.
func (h *installation) hasStages(thing string, want []string) error {
	got := h.cli("--profile", "default-operator", "trace", thing, "--output", "json")
	var story struct {
		Steps []struct{ Stage, Text string }
	}
	if err := decode(got.out, &story); err != nil {
		return fmt.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	var stages []string
	for _, s := range story.Steps {
		if !slices.Contains(stages, s.Stage) {
			stages = append(stages, s.Stage)
		}
	}
	if !slices.Equal(stages, want) {
		return fmt.Errorf("got the stages %v of %+v", stages, story.Steps)
	}
	return nil
}
