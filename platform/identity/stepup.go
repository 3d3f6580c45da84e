package identity

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/policies"
)

// SignIn describes how a user has proven the identity.
type SignIn struct {
	// At is zero for API keys, and where the identity provider does not state it.
	At time.Time
	// Methods are acr and amr values, separated by spaces. An API key has those of the sign-in that
	// created it.
	Methods string
}

// MethodFirstAdmin is the method of a sign-in with a code of gpuaas first-admin. The code proves access to
// the installation's own files, so it counts as a second factor: it is the way back in when the identity
// provider offers none.
const MethodFirstAdmin = "gpuaas:first-admin"

// Recent rejects a user whose sign-in is too old to create a credential or to grant a role. A stolen
// session or API key then leaves nothing behind that outlives it. A service account has no sign-in: the
// scopes of its token decide.
func (s *Service) Recent(c Caller) error {
	minutes := s.PolicyFor(Caller{}).Int(policies.AuthStepUpMinutes)
	if minutes == 0 || c.ServiceAccount != (ids.ServiceAccount{}) {
		return nil
	}
	switch {
	case !c.SignIn.At.IsZero() && s.Now().Before(c.SignIn.At.Add(time.Duration(minutes)*time.Minute)):
		return nil
	case c.Key != (ids.APIKey{}):
		return stepUp("this request needs a sign-in of the last %d minutes, and an API key is none", minutes)
	}
	return stepUp("this request needs a sign-in of the last %d minutes", minutes)
}

// Strong rejects an administrator or operator whose sign-in had none of the methods that the policy
// requires.
func (s *Service) Strong(role string, in SignIn) error {
	if role == "user" || role == "" {
		return nil
	}
	want := strings.Fields(s.PolicyFor(Caller{}).String(policies.AuthAdminAcr))
	if len(want) == 0 {
		return nil
	}
	want = append(want, MethodFirstAdmin)
	if slices.ContainsFunc(strings.Fields(in.Methods), func(m string) bool { return slices.Contains(want, m) }) {
		return nil
	}
	return stepUp("the role %s needs a sign-in with a second factor", role).With("acr_values", strings.Join(want[:len(want)-1], " "))
}

func stepUp(format string, args ...any) *errs.Error {
	return errs.New(errs.StepUpRequired, format, args...).
		Try("sign in again with gpuaas login --again, or at /sign-in?step_up=true, and repeat the request")
}

// Within bounds the end of a credential by the end of the key or credential that creates it. A nil end is none.
func (c Caller) Within(end *time.Time) (*time.Time, error) {
	switch {
	case c.KeyEnd.IsZero():
		return end, nil
	case end == nil:
		return &c.KeyEnd, nil
	case end.After(c.KeyEnd):
		return nil, errs.Invalid("ttl_seconds", "must end before %s, like the credential of this request", c.KeyEnd.UTC().Format(time.RFC3339)).
			Try("choose a shorter time, or sign in")
	}
	return end, nil
}
