package task

import (
	"context"
	"slices"

	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

// provisionUser gives a tenant an account on the node with the GPUs of its slots.
func provisionUser() Handler {
	return Handler{
		Type: protocol.ProvisionUser, Supported: needsHost(protocol.ProvisionUser), Check: slotsFree, Steps: provisionSteps,
		Run: undoOnFailure(runSteps), Resume: undoOnFailure(unlessExpired(runSteps)),
	}
}

// provisionSteps has the login keys last before the proof: no tenant logs in while the devices still
// contain what an earlier tenant left.
func provisionSteps() []step.Step {
	return []step.Step{
		step.GPUHealth(), step.Evict(), step.ScrubBefore(), step.Baseline(), step.PutSettings(), step.PutAccount(), step.PutHome(),
		step.PutDeviceAccess(), step.PutNetwork(), step.PutStorage(), step.PutLoginKeys(), step.VerifyInside(),
	}
}

// undoOnFailure reverts a provisioning that failed. No other task is reverted: what a release removed must
// not return, and a key that a rotation removed may be known to others. A provisioning that repairs an
// allocation is not reverted either, because that would destroy the key of a home with the tenant's data.
func undoOnFailure(run func(context.Context, *Execution) (Result, error)) func(context.Context, *Execution) (Result, error) {
	return func(ctx context.Context, x *Execution) (Result, error) {
		result, err := run(ctx, x)
		if err != nil && ctx.Err() == nil {
			undo(ctx, x)
		}
		return result, err
	}
}

// Remount mounts the stored objects of an allocation again. It changes nothing else of the allocation.
func Remount(ctx context.Context, x *Execution) error {
	base := x.Record().Provisioning()
	if base == nil {
		return nil // a release was admitted
	}
	steps := slices.DeleteFunc(x.steps(base.Envelope.Type), func(s step.Step) bool { return s.Name != step.PutStorage().Name })
	return x.repeat(ctx, steps)
}

// Repair executes the provisioning of an allocation again. Each step checks first, so only differences are
// corrected. The result in the journal stays.
func Repair(ctx context.Context, x *Execution) error {
	base := x.Record().Provisioning()
	if base == nil {
		return nil // a release was admitted
	}
	return x.repeat(ctx, x.steps(base.Envelope.Type))
}
