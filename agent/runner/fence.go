package runner

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/protocol"
)

// Admit decides whether to execute a task, given the last executed task of the same allocation. The
// node checks the fence itself, because two planners may both consider themselves the leader.
func Admit(last *journal.Entry, t protocol.Envelope, digest string) error {
	if last == nil || t.Fence > last.Envelope.Fence {
		return nil
	}
	before := last.Envelope
	switch {
	case t.Fence < before.Fence:
		return protocol.Reject(protocol.StaleFence, "task fence %d is older than %d", t.Fence, before.Fence)
	case t.Type != before.Type && !completes(before, t) || t.SpecHash != before.SpecHash:
		// Two planners used one fence. The node cannot determine which task is right.
		return protocol.Reject(protocol.FenceConflict, "task differs from the one admitted at fence %d", t.Fence)
	case t.Attempt < before.Attempt:
		return protocol.Reject(protocol.Replayed, "attempt %d at fence %d is over, %d was admitted", t.Attempt, t.Fence, before.Attempt)
	case t.Attempt == before.Attempt && digest != last.Digest:
		return protocol.Reject(protocol.FenceConflict, "two tasks are attempt %d at fence %d", t.Attempt, t.Fence)
	default:
		return nil // the same task again
	}
}

// completes reports whether a task requests everything of which the task before it, at the same
// fence, requested a part.
func completes(before, t protocol.Envelope) bool {
	return before.Type.Effect() == protocol.Amends && t.Type.Effect() == protocol.Provisions && t.Attempt > before.Attempt
}

func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
