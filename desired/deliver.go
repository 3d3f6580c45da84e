package desired

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// isolations lists the isolation modes of tenants, from the weakest to the strongest.
var isolations = []string{"host_user", "slice_vm", "full_reimage"}

// delivered lists the modes of which a driver exists, and the onboardings that exist.
var (
	deliveredIsolations  = []string{"host_user"}
	deliveredOnboardings = []string{"manual", "simulated"}
)

// StrongerIsolation returns the stronger of two isolation modes.
func StrongerIsolation(a, b string) string {
	if slices.Index(isolations, a) < slices.Index(isolations, b) {
		return b
	}
	return a
}

// DeliversIsolation reports whether a driver can isolate tenants in this mode.
func DeliversIsolation(mode string) bool { return slices.Contains(deliveredIsolations, mode) }

// undeliverable is a value that nothing in this release can deliver.
type undeliverable struct{ Code, Field, Message, Expected string }

// FindUndeliverable returns the first such value of a spec, or nil.
func FindUndeliverable(o Object) *undeliverable {
	var spec struct{ Isolation, Onboarding string }
	if json.Unmarshal(o.Spec, &spec) != nil {
		return nil // the schema reports it
	}
	switch {
	case o.Kind == KindSKU && !DeliversIsolation(spec.Isolation):
		return &undeliverable{CodeIsolationUnavailable, "spec.isolation", fmt.Sprintf("no driver delivers the isolation %s", spec.Isolation), strings.Join(deliveredIsolations, " or ")}
	case o.Kind == KindNode && !slices.Contains(deliveredOnboardings, spec.Onboarding):
		return &undeliverable{CodeOnboardingUnavailable, "spec.onboarding", fmt.Sprintf("no adapter delivers the onboarding %s", spec.Onboarding), strings.Join(deliveredOnboardings, " or ")}
	}
	return nil
}
