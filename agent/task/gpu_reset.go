package task

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

// resetWithin limits a reset. A board needs ten seconds.
const resetWithin = 5 * time.Minute

// gpuReset resets one idle GPU. A reset may be repeated: no tenant gets the device before the task ends, so
// that Resume executes it again.
func gpuReset() Handler {
	return Handler{
		Type: protocol.GPUReset, Supported: needsDevices(protocol.GPUReset), Check: noTenantOn, Within: resetWithin,
		Run: resetGPU, Resume: resetGPU,
		Locks: func(e protocol.Envelope) []string {
			p, err := protocol.ParamsOf[protocol.GPUResetParams](e)
			if err != nil {
				return nil
			}
			return []string{p.GPU}
		},
	}
}

// GPUResetAnswer is the device before and after the reset.
type GPUResetAnswer struct {
	Before protocol.GPU `json:"before"`
	After  protocol.GPU `json:"after"`
}

// noTenantOn rejects a reset of a GPU that an allocation has. A GPU that a failed release left dirty may be
// reset, because a reset can correct it.
func noTenantOn(a Admission) error {
	p, err := protocol.ParamsOf[protocol.GPUResetParams](a.Envelope)
	if err != nil {
		return err
	}
	for _, other := range a.Others {
		last := other.Last().Envelope
		if last.Type.Scope() == protocol.ScopeAllocation && last.Type.Effect() != protocol.Releases && slices.Contains(last.Slots, p.GPU) {
			return protocol.Reject(protocol.SlotBusy, "%s belongs to allocation %s", p.GPU, other.Allocation)
		}
	}
	return nil
}

// resetGPU resets one GPU and returns its state before and after, so that an operator can compare them.
func resetGPU(ctx context.Context, x *Execution) (Result, error) {
	p, err := protocol.ParamsOf[protocol.GPUResetParams](x.Envelope)
	if err != nil {
		return Result{}, err
	}
	before, err := device(ctx, x.Devices, p.GPU)
	if err != nil {
		return Result{}, err
	}
	// Check has read the journal. A process of the host OS is only visible here.
	if before.Processes > 0 && p.ExpectIdle {
		return Result{}, protocol.Reject(protocol.SlotBusy, "%d processes use %s", before.Processes, p.GPU)
	}
	if err := x.begin("reset", 1, resetWithin); err != nil {
		return Result{}, err
	}
	if err := x.Devices.Reset(ctx, before); err != nil {
		return Result{}, fmt.Errorf("resetting %s: %w", p.GPU, err)
	}
	after, err := device(ctx, x.Devices, p.GPU)
	if err != nil {
		return Result{}, fmt.Errorf("after the reset: %w", err)
	}
	return Result{Answer: GPUResetAnswer{before, after}}, nil
}

func device(ctx context.Context, devices Devices, uuid string) (protocol.GPU, error) {
	inventory, err := devices.Inventory(ctx)
	if err != nil {
		return protocol.GPU{}, err
	}
	i := slices.IndexFunc(inventory.GPUs, func(g protocol.GPU) bool { return g.UUID == uuid })
	if i < 0 {
		return protocol.GPU{}, protocol.Reject(protocol.ParamsInvalid, "%s is not on this node", uuid)
	}
	return inventory.GPUs[i], nil
}
