package helper

import (
	"context"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/logs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// One allocation has 16 open logs and a node 128. A log that no client reads ends after half a minute.
func TestOpenLogsAreBounded(t *testing.T) {
	t.Parallel()
	o, now := &openLogs{}, time.Now()
	o.start(t.Context())
	add := func(n int, of ids.Allocation) (added int) {
		for range n {
			err := o.add(ids.New[ids.Task](), of, now, func(ctx context.Context, _ *logs.Feed) error { <-ctx.Done(); return nil })
			if err == nil {
				added++
			} else if protocol.CodeOf(err) != protocol.SlotBusy {
				t.Error(err)
			}
		}
		return added
	}
	if n := add(20, ids.Allocation{}); n != 16 {
		t.Errorf("%d logs of the node", n)
	}
	total := 16
	for range 10 {
		total += add(20, ids.New[ids.Allocation]())
	}
	if total != 128 {
		t.Errorf("%d logs", total)
	}
	if now = now.Add(30 * time.Second); add(1, ids.Allocation{}) != 1 || len(o.open) != 1 {
		t.Errorf("%d logs after half a minute without a reader", len(o.open))
	}
}
