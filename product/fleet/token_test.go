package fleet_test

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/fleet"
)

// Threat: a thief of an operator's session or API key enrols a node, which receives the work of tenants.
func TestAnOldSignInGetsNoEnrolmentToken(t *testing.T) {
	t.Parallel()
	s := &fleet.Service{Identity: &identity.Service{}}
	for name, c := range map[string]identity.Caller{
		"an old sign-in": {User: ids.New[ids.User](), Role: "operator", SignIn: identity.SignIn{At: time.Now().Add(-time.Hour)}},
		"an API key":     {User: ids.New[ids.User](), Role: "operator", Key: ids.New[ids.APIKey]()},
	} {
		if _, _, err := s.IssueTokenTo(t.Context(), c, ids.New[ids.Node]()); errs.CodeOf(err) != errs.StepUpRequired {
			t.Errorf("%s: %v", name, err)
		}
	}
}
