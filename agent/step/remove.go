package step

import (
	"context"

	"github.com/gpuaas/gpuaas/protocol"
)

// Sweep removes the files and objects of the tenant outside its home. A later tenant with the same uid would own them.
func Sweep() Step {
	return Step{
		Name: "sweep", Within: thorough, Code: protocol.StepFailed,
		// No cheap check proves that nothing is left, so the step always runs.
		Check: func(context.Context, Host, protocol.AllocationParams) (bool, error) { return false, nil },
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			return h.Sweep(ctx, o.User, o.UID)
		},
	}
}

// RemoveHome destroys the home's key, then the home.
func RemoveHome() Step {
	return Step{
		Name: "remove_home", Within: fair, Code: protocol.StepFailed,
		// A home may outlive its account, so the account does not show whether a home exists. The
		// step always runs.
		Check: func(context.Context, Host, protocol.AllocationParams) (bool, error) { return false, nil },
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			return h.RemoveHome(ctx, o.User, o.UID)
		},
	}
}

// RemoveAccount removes the user.
func RemoveAccount() Step {
	check, verify := absent(remains)
	return Step{
		Name: "remove_account", Within: fair, Code: protocol.StepFailed, Check: check, Verify: verify,
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			return h.RemoveAccount(ctx, o.User, o.UID)
		},
	}
}

// RemoveDropIns removes the tenant's files from the configuration of the host OS. Only the leftover
// scan follows it, because the slice must restrict the account until the account is removed.
func RemoveDropIns() Step {
	return Step{
		Name: "drop_ins", Within: fair, Code: protocol.StepFailed,
		Check: func(context.Context, Host, protocol.AllocationParams) (bool, error) { return false, nil },
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			for _, remove := range []func(context.Context, string, int) error{h.RemoveSlice, h.RemoveNet, h.RemoveLogin} {
				if err := remove(ctx, o.User, o.UID); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func remains(s State, o protocol.AllocationParams) (found []string) {
	for _, a := range s.Accounts {
		if a.Name == o.User || a.UID == o.UID {
			found = append(found, "account "+a.Name+" is still there")
		}
	}
	for _, f := range s.Files {
		if f.UID == o.UID {
			found = append(found, "file "+f.Path+" is still there")
		}
	}
	return found
}
