package step

import (
	"context"
	"fmt"

	"github.com/gpuaas/gpuaas/protocol"
)

// PutNetwork blocks the tenant's access to the node's management networks, to the metadata service
// of the site, and to the services of other tenants.
func PutNetwork() Step {
	check, verify := absent(otherNet)
	return Step{
		Name: "network", Within: fair, Code: protocol.StepFailed, Check: check, Verify: verify,
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			return h.PutNet(ctx, o.User, o.UID)
		},
		Undo: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			return h.RemoveNet(ctx, o.User, o.UID)
		},
	}
}

// otherNet reports missing rules. A missing account is reported by its own step. Rules that cannot be read count as
// missing: an unread rule is no evidence that the tenant is restricted.
func otherNet(s State, o protocol.AllocationParams) []string {
	a, ok := s.account(o.User)
	switch {
	case !ok || a.Net:
		return nil
	case a.NetReason != "":
		return []string{fmt.Sprintf("network: the rules of %s cannot be read (%s), expected some", o.User, a.NetReason)}
	default:
		return []string{fmt.Sprintf("network: %s has no rules, expected some", o.User)}
	}
}
