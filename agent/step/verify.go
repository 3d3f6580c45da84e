package step

import (
	"context"
	"fmt"

	"github.com/gpuaas/gpuaas/protocol"
)

// VerifyInside checks everything that the task requested once more after all steps, because a later
// step may have reverted the effect of an earlier one. Then it logs in as the tenant and probes.
func VerifyInside() Step {
	return Step{
		Name: "verify_inside", Within: fair, Code: protocol.VerifyFailed,
		Check: func(ctx context.Context, h Host, o protocol.AllocationParams) (bool, error) {
			return true, clean(observe(ctx, h, o, func(s State) []string { return Differences(s, o) }))
		},
		Prove: func(ctx context.Context, h Host, o protocol.AllocationParams, p *protocol.Proof) error {
			probes, err := h.ProbeInside(ctx, o)
			if err != nil {
				return fmt.Errorf("logging in as %s: %w", o.User, err)
			}
			p.Probes = append(p.Probes, probes...)
			for _, probe := range probes {
				if !probe.Passed() {
					return fmt.Errorf("inside the session of %s, %s: %s, want %s", o.User, probe.Name, probe.Got, probe.Expected)
				}
			}
			p.Checks = append(p.Checks, provisionChecks()...)
			return proveLogin(ctx, h, o, p)
		},
	}
}

// Differences lists the differences of a provisioned allocation from its task. Empty means that everything is in place.
// Each difference begins with its field and ends with the expected value. The control plane splits the text into these
// two values:
//
//	keys: 2 login keys open t-1 and 1 of them are unknown, expected 1
func Differences(s State, o protocol.AllocationParams) []string {
	found := missingAccount(s, o)
	if a, ok := s.account(o.User); ok && len(found) == 0 {
		found = append(found, otherLogins(s, o)...)
		found = append(found, otherHome(s, o)...)
		found = append(found, otherNet(s, o)...)
		found = append(found, a.wrong("account")...)
	}
	found = append(found, otherSlice(s, o)...)
	found = append(found, s.Settings...)
	return append(found, describe(strangers(s, o))...)
}

// provisionChecks names what a provisioning is verified by.
func provisionChecks() []string {
	return []string{"account", "login_keys", "home", "network", "device_access", "foreign_processes", "gpu_health", "gpu_baseline", "settings", "session"}
}
