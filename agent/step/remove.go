package step

import (
	"context"

	"github.com/gpuaas/gpuaas/protocol"
)

// Sweep removes what the tenant left outside its home: a later tenant of the same
// uid would own it.
func Sweep() Step {
	return Step{
		Name: "sweep", Within: thorough, Code: protocol.StepFailed,
		// Nothing cheap says that there is nothing: it is always done.
		Check: func(context.Context, Host, protocol.Order) (bool, error) { return false, nil },
		Do:    func(ctx context.Context, h Host, o protocol.Order) error { return h.Sweep(ctx, o.User, o.UID) },
	}
}

// RemoveHome destroys the home's key, then the home.
func RemoveHome() Step {
	return Step{
		Name: "remove_home", Within: fair, Code: protocol.StepFailed,
		// A home may outlive its account: whether there is one is asked of the host.
		Check: func(context.Context, Host, protocol.Order) (bool, error) { return false, nil },
		Do:    func(ctx context.Context, h Host, o protocol.Order) error { return h.RemoveHome(ctx, o.User, o.UID) },
	}
}

// RemoveAccount removes the user.
func RemoveAccount() Step {
	check, verify := absent(remains)
	return Step{
		Name: "remove_account", Within: fair, Code: protocol.StepFailed, Check: check, Verify: verify,
		Do: func(ctx context.Context, h Host, o protocol.Order) error { return h.RemoveAccount(ctx, o.User, o.UID) },
	}
}

// RemoveDropIns removes what of the tenant stands in the host's own configuration. It is
// last but for the scan: until the account was gone, its slice held it.
func RemoveDropIns() Step {
	return Step{
		Name: "drop_ins", Within: fair, Code: protocol.StepFailed,
		Check: func(context.Context, Host, protocol.Order) (bool, error) { return false, nil },
		Do: func(ctx context.Context, h Host, o protocol.Order) error {
			for _, remove := range []func(context.Context, string, int) error{h.RemoveSlice, h.RemoveNet, h.RemoveLogin} {
				if err := remove(ctx, o.User, o.UID); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func remains(s State, o protocol.Order) (found []string) {
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
