package validate

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Limits of the child that evaluates files.
type Limits struct {
	MemoryBytes uint64        `json:"memory_bytes"`
	CPU         time.Duration `json:"cpu"` // whole seconds
	Wall        time.Duration `json:"wall"`
}

// DefaultLimits are far above the needs of a fleet: 10,000 objects in YAML need 0.65 s and 114 MiB.
// A hostile file of 300 bytes would need 47 s and a gigabyte.
func DefaultLimits() Limits {
	return Limits{MemoryBytes: 512 << 20, CPU: 10 * time.Second, Wall: 15 * time.Second}
}

// exitMemory is the exit code of a child that has exceeded its memory limit.
const exitMemory = 77

// watchEvery is short against the time in which CUE fills half a gigabyte, some
// 20 s at its measured rate.
const watchEvery = 10 * time.Millisecond

// confine limits this process for good. The kernel's limit on data is the hard
// one; the watch ends the process before, with a clear exit code, and is all
// there is where the kernel does not count.
func confine(ctx context.Context, l Limits) error {
	// A higher rate of garbage collection near the limit is better than a rejected tree.
	debug.SetMemoryLimit(int64(l.MemoryBytes / 8 * 7)) //nolint:gosec // far below 2^63
	go watch(ctx, l.MemoryBytes)
	return restrict(l)
}

func watch(ctx context.Context, limit uint64) {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	ticks := time.NewTicker(watchEvery)
	defer ticks.Stop()
	for {
		metrics.Read(samples)
		if samples[0].Value.Uint64()-samples[1].Value.Uint64() > limit {
			os.Exit(exitMemory)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}
