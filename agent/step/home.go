package step

import (
	"context"
	"fmt"

	"github.com/gpuaas/gpuaas/protocol"
)

// PutHome creates the tenant's home, a separate file system. Its size is the quota, and its key makes its data unreadable
// after the release.
func PutHome() Step {
	check, verify := absent(otherHome)
	return Step{
		Name: "home", Within: fair, Code: protocol.StepFailed, Check: check, Verify: verify,
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			return h.PutHome(ctx, o.User, o.UID, o.Limits.HomeGiB)
		},
		Undo: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			return h.RemoveHome(ctx, o.User, o.UID)
		},
	}
}

func otherHome(s State, o protocol.AllocationParams) []string {
	a, ok := s.account(o.User)
	switch {
	case !ok:
		return missingAccount(s, o)
	case a.Home.Lost:
		return []string{fmt.Sprintf("home: the key of %s was lost with the restart of the node, expected an open home", o.User)}
	case a.Home.GiB == 0 || !a.Home.Open:
		return []string{fmt.Sprintf("home: %s has none open, expected one", o.User)}
	case o.Limits.HomeGiB != 0 && a.Home.GiB < o.Limits.HomeGiB: // one never shrinks
		return []string{fmt.Sprintf("home: %s has %d GiB, expected %d", o.User, a.Home.GiB, o.Limits.HomeGiB)}
	}
	return a.wrong("home")
}
