package runner_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/runner"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Tasks arrive in any sequence, repeatedly, and with restarts between them. The executed tasks have rising fences, each
// is executed once, and no two contents share a fence.
func TestAdmitWithJournal(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		type order struct {
			fence   int64
			attempt int
			kind    protocol.Type
			task    ids.Task
		}
		// A control plane with a split brain: it may mint a number twice.
		orders := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) order {
			return order{
				rapid.Int64Range(1, 5).Draw(t, "fence"), rapid.IntRange(1, 3).Draw(t, "attempt"),
				rapid.SampledFrom([]protocol.Type{protocol.ProvisionUser, protocol.RevokeUser}).Draw(t, "type"), ids.New[ids.Task](),
			}
		}), 1, 6).Draw(t, "orders")

		var last *journal.Entry
		acted, content := map[string]int{}, map[int64]protocol.Type{}
		for range rapid.IntRange(1, 40).Draw(t, "deliveries") {
			o := rapid.SampledFrom(orders).Draw(t, "order")
			e := protocol.Envelope{Task: o.task, Fence: o.fence, Attempt: o.attempt, Type: o.kind, SpecHash: string(o.kind)}
			digest := fmt.Sprint(o)
			if err := runner.Admit(last, e, digest); err != nil {
				if protocol.CodeOf(err) == "" {
					t.Fatalf("rejected without a code: %v", err)
				}
				continue
			}
			if last != nil && last.Digest == digest {
				continue // answered from the journal
			}
			if last != nil && (o.fence < last.Envelope.Fence || o.fence == last.Envelope.Fence && o.attempt <= last.Envelope.Attempt) {
				t.Fatalf("went back from %+v to %+v", last.Envelope, e)
			}
			if kind, ok := content[o.fence]; ok && kind != o.kind {
				t.Fatalf("fence %d meant %s and %s", o.fence, kind, o.kind)
			}
			content[o.fence] = o.kind
			acted[digest]++
			if acted[digest] > 1 {
				t.Fatalf("acted twice on %+v", o)
			}
			last = &journal.Entry{Envelope: e, Digest: digest}
		}
	})
}
