package hook

import (
	"context"

	"github.com/gpuaas/gpuaas/agent/wire"
)

// verifyInside looks at the whole of what was ordered once more, after all steps:
// a later one may have undone what an earlier one verified.
func verifyInside() Step {
	return Step{
		Name: "verify_inside", Within: quick, Code: wire.VerifyFailed,
		Check: func(ctx context.Context, h Host, o wire.Order) (bool, error) {
			return true, clean(look(ctx, h, func(s State) []string { return Differences(s, o) }))
		},
	}
}

// Differences names what is not as a provisioned allocation was ordered. Empty
// means that everything is in place. Each begins with the field that differs and
// ends with what was ordered, which the control plane reads as two values:
//
//	keys: 2 login keys open t-1 and 1 of them are others', ordered 1
func Differences(s State, o wire.Order) []string {
	found := missingAccount(s, o)
	if len(found) == 0 {
		found = append(found, otherKeys(s, o)...)
	}
	found = append(found, otherAccess(s, o)...)
	return append(found, describe(strangers(s, o))...)
}

// ProvisionChecks names what Differences looks at.
func ProvisionChecks() []string {
	return []string{"account", "login_keys", "device_access", "foreign_processes", "gpu_health"}
}
