package signin

import (
	"iter"
	"time"

	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/jwt"
	"github.com/gpuaas/gpuaas/policies"
)

// Again makes a user sign in again who is signed in at the provider already. The zero value does not.
type Again struct {
	StepUp bool
	ACR    string // values of which the provider should reach one, separated by spaces
}

// Parameters returns the parameters of the request to the provider.
func (a Again) Parameters() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if !a.StepUp {
			return
		}
		if !yield("prompt", "login") || !yield("max_age", "0") || a.ACR == "" {
			return
		}
		yield("acr_values", a.ACR)
	}
}

// Again returns how to request a sign-in of the provider.
func (s *Service) Again(stepUp bool) Again {
	return Again{StepUp: stepUp, ACR: s.AdminACR()}
}

// AdminACR returns the values of which a sign-in of an administrator needs one.
func (s *Service) AdminACR() string {
	return s.PolicyFor(identity.Caller{}).String(policies.AuthAdminAcr)
}

// SignedInSince rejects a response of the provider about a sign-in before that time. A browser could
// otherwise remove the parameters from the request.
func (v Verified) SignedInSince(since time.Time) error {
	if !v.SignIn.At.IsZero() && v.SignIn.At.After(since.Add(-jwt.Leeway)) {
		return nil
	}
	return loginFailed("the sign-in provider reports an older sign-in").Try("the provider must support max_age and return the claim auth_time")
}
