package task

import (
	"context"
	"errors"
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
	for _, s := range x.steps(base.Envelope.Type) {
		if isStorage(s) {
			return x.repeat(ctx, []step.Step{s})
		}
	}
	return nil
}

// Repair executes the provisioning of an allocation again. Each step checks first, so only differences are
// corrected. The result in the journal stays. Storage that cannot be mounted does not prevent the login, which follows.
func Repair(ctx context.Context, x *Execution) error {
	base := x.Record().Provisioning()
	if base == nil {
		return nil // a release was admitted
	}
	steps := x.steps(base.Envelope.Type)
	at := slices.IndexFunc(steps, isStorage)
	if at < 0 {
		return x.repeat(ctx, steps)
	}
	if err := x.repeat(ctx, steps[:at]); err != nil {
		return err
	}
	return errors.Join(x.repeat(ctx, steps[at:at+1]), x.repeat(ctx, steps[at+1:]))
}

func isStorage(s step.Step) bool { return s.Name == step.PutStorage().Name }
