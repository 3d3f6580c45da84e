package update_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/update"
	"github.com/gpuaas/gpuaas/protocol"
)

// A build that reports stays, raises the minimum version, and ends the guard.
func TestBecomes(t *testing.T) {
	t.Parallel()
	h := newNode(t)
	o := h.release("v1.1.0", "v1.0.0")
	if err := h.live(o); err != nil {
		t.Fatal(err)
	}
	if h.version("current") != "v1.1.0" || h.version("previous") != "v1.0.0" || h.armed || h.process("current").Minimum() != "v1.0.0" {
		t.Errorf("%s after %s, guard %v, minimum %s", h.version("current"), h.version("previous"), h.armed, h.process("current").Minimum())
	}
	if info, err := os.Stat(filepath.Join(h.dir, "lib/b")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the half that is no root cannot reach its program: %v, %v", info.Mode(), err)
	}
	h.restarted = false
	if done, err := h.process("current").Begin(t.Context(), o); !done || err != nil || h.restarted {
		t.Errorf("requested again: %v, %v, restarted %v", done, err, h.restarted)
	}
	again := h.release("v1.1.0", "v1.0.0")
	again.Fence = 2
	if done, err := h.process("current").Begin(t.Context(), again); !done || err != nil || h.restarted {
		t.Errorf("update to its own version: %v, %v, restarted %v", done, err, h.restarted)
	}
	back := h.release("v1.0.0", "")
	back.Fence = 3
	if err := h.live(back); err != nil || h.version("current") != "v1.0.0" {
		t.Errorf("back, not below the minimum: %v, %s", err, h.version("current"))
	}
}

// INV-49: a build that is not heard of in time, or does not start, is undone.
func TestINV49SickIsUndone(t *testing.T) {
	t.Parallel()
	for name, fall := range map[string]func(*simulatedNode){
		"not heard of":   func(h *simulatedNode) { h.sick["v1.1.0"] = true },
		"does not start": func(h *simulatedNode) { h.dead["v1.1.0"] = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newNode(t)
			fall(h)
			err := h.live(h.release("v1.1.0", "v1.1.0"))
			if protocol.CodeOf(err) != protocol.RolledBack || !strings.Contains(err.Error(), "back on v1.0.0: no report of v1.1.0 was accepted within 45s (it does not start)") {
				t.Error(err)
			}
			if h.version("current") != "v1.0.0" || h.process("current").Minimum() != "" || h.now.Sub(noon) > time.Minute {
				t.Errorf("%s, minimum %q, after %s", h.version("current"), h.process("current").Minimum(), h.now.Sub(noon))
			}
		})
	}
}

// INV-49: killed at any point, by a power failure or a kill of the process, the node ends with a build that works, and
// the response names it.
func TestINV49CrashInTheSwap(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"installed", "recorded", "linked", "armed", "swapped", "restarted", "confirmed", "undoing", "turned_back", "undone"} {
		for _, kind := range []string{"good", "sick", "dead"} {
			onlyGood, onlyBad := point == "confirmed", strings.HasPrefix(point, "und") || point == "turned_back"
			if onlyGood && kind != "good" || onlyBad && kind == "good" {
				continue
			}
			t.Run(point+"/"+kind, func(t *testing.T) {
				t.Parallel()
				h := newNode(t)
				h.crashAt, h.sick["v1.1.0"], h.dead["v1.1.0"] = point, kind == "sick", kind == "dead"
				err := h.live(h.release("v1.1.0", "v1.1.0"))
				want := map[bool]string{true: "v1.1.0", false: "v1.0.0"}[err == nil]
				if !h.crashed || h.version("current") != want || (err == nil) != (kind == "good") {
					t.Errorf("crashed %v, runs %s: %v", h.crashed, h.version("current"), err)
				}
			})
		}
	}
}

// A node lost power between the swap and the proof, and its agent never resumes its task. The guard alone rolls the
// update back.
func TestGuardNeedsNoAgent(t *testing.T) {
	t.Parallel()
	h := newNode(t)
	if _, err := h.process("current").Begin(t.Context(), h.release("v1.1.0", "")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		undid, err := h.process("previous").Guard(t.Context(), func(ctx) string { return "" })
		if err != nil || undid != want || h.version("current") != "v1.0.0" {
			t.Errorf("undid %v, %v: %s", undid, err, h.version("current"))
		}
	}
}

// The report of a half that still is the old build proves nothing of the new one,
// nor does what the old root half hears.
func TestOnlyTheNewBuildProvesItself(t *testing.T) {
	t.Parallel()
	h := newNode(t)
	old := h.process("current")
	o := h.release("v1.1.0", "v1.1.0")
	if _, err := old.Begin(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	must(t, old.HandleAck(t.Context(), "v1.1.0"))
	must(t, h.process("current").HandleAck(t.Context(), "v1.0.0"))
	if floor := h.process("current").Minimum(); floor != "" || !h.armed {
		t.Fatalf("proved: minimum %q, guard %v", floor, h.armed)
	}
	must(t, h.process("current").HandleAck(t.Context(), "v1.1.0"))
	if floor := h.process("current").Minimum(); floor != "v1.1.0" || h.armed {
		t.Errorf("not proved: minimum %q, guard %v", floor, h.armed)
	}
}

// INV-49: a build that is not signed for this node, or is too old, changes nothing.
func TestINV49Rejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request func(*simulatedNode) update.Request
		code    protocol.RejectReason
	}{
		"below the minimum": {func(h *simulatedNode) update.Request { return h.release("v0.9.0", "") }, protocol.DowngradeRejected},
		"without a minimum": {func(h *simulatedNode) update.Request {
			return h.release("v1.2.0", "", func(r *protocol.Release) { r.Minimum = "" })
		}, protocol.ParamsInvalid},
		"expired": {func(h *simulatedNode) update.Request {
			o := h.release("v1.2.0", "")
			h.now = noon.Add(time.Hour)
			return o
		}, protocol.Expired},
		"not issued yet": {func(h *simulatedNode) update.Request {
			return h.release("v1.2.0", "", func(r *protocol.Release) { r.IssuedAt = noon.Add(10 * time.Minute) })
		}, protocol.NotYetValid},
		"another platform": {func(h *simulatedNode) update.Request {
			return h.release("v1.2.0", "", func(r *protocol.Release) { r.Platform = "linux/arm64" })
		}, protocol.ParamsInvalid},
		"another version": {func(h *simulatedNode) update.Request {
			o := h.release("v1.2.0", "")
			o.Params.Version = "v1.3.0"
			return o
		}, protocol.ParamsInvalid},
		"prints another version": {func(h *simulatedNode) update.Request {
			return h.release("v1.2.0", "", func(r *protocol.Release) { r.Version = "v1.3.0" })
		}, protocol.ParamsInvalid},
		"not canonical": {func(h *simulatedNode) update.Request {
			o := h.release("v1.2.0", "")
			o.Params.Metadata = append(o.Params.Metadata, ' ')
			return o
		}, protocol.SignatureInvalid},
		"another key": {func(h *simulatedNode) update.Request {
			o := h.release("v1.2.0", "")
			h.keys = newNode(h.t).keys
			return o
		}, protocol.SignatureInvalid},
		"no key": {func(h *simulatedNode) update.Request { o := h.release("v1.2.0", ""); clear(h.keys); return o }, protocol.KeyUnknown},
		"names another key": {func(h *simulatedNode) update.Request {
			return h.release("v1.2.0", "", func(r *protocol.Release) { r.Kid = "r2" })
		}, protocol.ParamsInvalid},
		"not staged": {func(h *simulatedNode) update.Request {
			o := h.release("v1.2.0", "")
			must(h.t, os.Remove(h.staged(o)))
			return o
		}, protocol.StepFailed},
		"truncated": {func(h *simulatedNode) update.Request {
			o := h.release("v1.2.0", "")
			must(h.t, os.Truncate(h.staged(o), o.Params.Size-1))
			return o
		}, protocol.DigestMismatch},
		"longer": {func(h *simulatedNode) update.Request {
			o := h.release("v1.2.0", "")
			h.stage(o.Params.Digest, append(build("v1.2.0"), 0))
			return o
		}, protocol.DigestMismatch},
		"other content": {func(h *simulatedNode) update.Request {
			o := h.release("v1.2.0", "")
			h.stage(o.Params.Digest, build("v1.1.0"))
			return o
		}, protocol.DigestMismatch},
		"a link": {func(h *simulatedNode) update.Request { o := h.release("v1.2.0", ""); h.link(o); return o }, protocol.StepFailed},
		"another architecture": {func(h *simulatedNode) update.Request {
			return h.signed("v1.2.0", func(b []byte) []byte { b[18] = 183; return b })
		}, protocol.ParamsInvalid},
		"no program": {func(h *simulatedNode) update.Request {
			return h.signed("v1.2.0", func(b []byte) []byte { return b[1:] })
		}, protocol.ParamsInvalid},
		"ends without a version": {func(h *simulatedNode) update.Request {
			return h.signed("v1.2.0", func(b []byte) []byte { b[120] = 0; return b })
		}, protocol.StepFailed},
		"an older decision": {func(h *simulatedNode) update.Request { o := h.release("v1.2.0", ""); o.Fence = 1; return o }, protocol.StaleFence},
		"its own size zero": {func(h *simulatedNode) update.Request {
			return h.release("v1.2.0", "", func(r *protocol.Release) { r.Size = 0 })
		}, protocol.ParamsInvalid},
		"below its own goal": {func(h *simulatedNode) update.Request { return h.release("v1.2.0", "v1.3.0") }, protocol.ParamsInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newNode(t)
			first := h.release("v1.1.0", "v1.0.0")
			first.Fence = 2
			must(t, h.live(first)) // it has a minimum
			o := c.request(h)
			if o.Fence != 1 || c.code != protocol.StaleFence {
				o.Fence = 3
			}
			h.restarted, h.armed = false, false
			done, err := h.process("current").Begin(t.Context(), o)
			if !done || protocol.CodeOf(err) != c.code {
				t.Errorf("%v, want %s", err, c.code)
			}
			if h.version("current") != "v1.1.0" || h.restarted || h.armed {
				t.Errorf("it acted: %s, restarted %v, guard %v", h.version("current"), h.restarted, h.armed)
			}
			for _, slot := range []string{"a", "b"} {
				if left, _ := filepath.Glob(filepath.Join(h.dir, "lib", slot, ".*")); len(left) > 0 {
					t.Errorf("left %v", left)
				}
			}
		})
	}
}

// A second update waits for the end of the first, and one that cannot be started
// is put back at once.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	h := newNode(t)
	if _, err := h.process("current").Begin(t.Context(), h.release("v1.1.0", "")); err != nil {
		t.Fatal(err)
	}
	second := h.release("v1.2.0", "")
	second.Fence = 2
	if _, err := h.process("current").Begin(t.Context(), second); protocol.CodeOf(err) != protocol.StepFailed || h.version("current") != "v1.1.0" {
		t.Errorf("%v, %s", err, h.version("current"))
	}

	h = newNode(t)
	h.failure = errNoStart
	if _, err := h.process("current").Begin(t.Context(), h.release("v1.1.0", "")); protocol.CodeOf(err) != protocol.StepFailed || h.version("current") != "v1.0.0" {
		t.Errorf("%v, %s", err, h.version("current"))
	}
}

// A restart that ends the process while it is requested is no failure: the next
// process goes on.
func TestRestartEndsTheAsking(t *testing.T) {
	t.Parallel()
	h := newNode(t)
	o := h.release("v1.1.0", "")
	ending, end := context.WithCancel(t.Context())
	h.ends = end
	if _, err := h.process("current").Begin(ending, o); !errors.Is(err, context.Canceled) || h.version("current") != "v1.1.0" {
		t.Fatalf("%v, %s", err, h.version("current"))
	}
	h.ends = nil
	if err := h.live(o); err != nil || h.version("current") != "v1.1.0" {
		t.Errorf("%v, %s", err, h.version("current"))
	}
}

// Without a readable minimum nothing is done until an operator repairs it.
func TestDamagedMemory(t *testing.T) {
	t.Parallel()
	h := newNode(t)
	must(t, h.live(h.release("v1.1.0", "v1.1.0")))
	must(t, os.Truncate(filepath.Join(h.dir, "state/update.json"), 9))
	if _, err := h.process("current").Begin(t.Context(), h.release("v1.0.0", "")); protocol.CodeOf(err) != protocol.JournalLost {
		t.Error(err)
	}
}
