package hook

import (
	"context"

	"github.com/gpuaas/gpuaas/agent/wire"
)

// removeAccount removes the user and every file of its uid: a later tenant of the
// same uid would own them.
func removeAccount() Step {
	return Step{
		Name: "remove_account", Within: quick, Code: wire.StepFailed,
		Check: func(ctx context.Context, h Host, o wire.Order) (bool, error) {
			return look(ctx, h, func(s State) bool { return len(remains(s, o)) == 0 })
		},
		Do: func(ctx context.Context, h Host, o wire.Order) error { return h.RemoveAccount(ctx, o.User, o.UID) },
		Verify: func(ctx context.Context, h Host, o wire.Order) error {
			return clean(look(ctx, h, func(s State) []string { return remains(s, o) }))
		},
	}
}

func remains(s State, o wire.Order) (found []string) {
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
