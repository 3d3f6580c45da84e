package step

import (
	"context"
	"fmt"

	"github.com/gpuaas/gpuaas/protocol"
)

// PutAccount creates the account of the tenant. It does not allow a login.
func PutAccount() Step {
	check, verify := absent(otherAccount)
	return Step{
		Name: "account", Within: fair, Code: protocol.StepFailed,
		Check: check, Verify: verify,
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			s, err := inspect(ctx, h, o)
			if err != nil {
				return err
			}
			for _, a := range s.Accounts {
				// With the name or uid of another account the tenant would own its files.
				if (a.Name == o.User) != (a.UID == o.UID) {
					return fmt.Errorf("account %s has uid %d; %s with uid %d was ordered", a.Name, a.UID, o.User, o.UID)
				}
			}
			return h.PutAccount(ctx, o.User, o.UID)
		},
		Undo: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			return h.RemoveAccount(ctx, o.User, o.UID)
		},
	}
}

func otherAccount(s State, o protocol.AllocationParams) []string {
	a, _ := s.account(o.User)
	return append(missingAccount(s, o), a.wrong("account")...)
}

func missingAccount(s State, o protocol.AllocationParams) []string {
	switch a, ok := s.account(o.User); {
	case !ok:
		return []string{fmt.Sprintf("account: %s is missing, expected with uid %d", o.User, o.UID)}
	case a.UID != o.UID:
		return []string{fmt.Sprintf("account: %s has uid %d, expected %d", o.User, a.UID, o.UID)}
	}
	return nil
}
