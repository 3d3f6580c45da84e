package step_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

// Each rule for logins is compared by itself, in both directions.
func TestDifferencesOfAccess(t *testing.T) {
	t.Parallel()
	strict, open := protocol.Access{LoginFrom: protocol.FromLoopback}, protocol.Access{Forwarding: protocol.ForwardLocal}
	for _, c := range []struct {
		have, want protocol.Access
		found      []string
	}{
		{strict, strict, nil},
		{open, open, nil},
		{strict, open, []string{"login_from: logins of u7 are accepted from loopback, expected everywhere", "forwarding: u7 has none, expected local"}},
		{open, strict, []string{"login_from: logins of u7 are accepted from everywhere, expected loopback", "forwarding: u7 has local, expected none"}},
	} {
		s := step.State{Accounts: []step.Account{{Name: "u7", UID: 200007, Access: c.have}}}
		found := slices.DeleteFunc(step.Differences(s, protocol.AllocationParams{User: "u7", UID: 200007, Access: c.want}), func(d string) bool {
			return !strings.HasPrefix(d, "login_from:") && !strings.HasPrefix(d, "forwarding:")
		})
		if !slices.Equal(found, c.found) {
			t.Errorf("%+v instead of %+v: %q", c.have, c.want, found)
		}
	}
}
