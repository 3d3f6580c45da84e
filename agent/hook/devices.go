package hook

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/agent/wire"
)

// deviceAccess opens exactly the ordered GPUs to the tenant.
func deviceAccess() Step {
	return Step{
		Name: "device_access", Within: quick, Code: wire.StepFailed,
		Check: func(ctx context.Context, h Host, o wire.Order) (bool, error) {
			return look(ctx, h, func(s State) bool { return len(otherAccess(s, o)) == 0 })
		},
		Do: func(ctx context.Context, h Host, o wire.Order) error { return h.Grant(ctx, o.User, o.GPUs) },
		Verify: func(ctx context.Context, h Host, o wire.Order) error {
			return clean(look(ctx, h, func(s State) []string { return otherAccess(s, o) }))
		},
		Undo: noAccess,
	}
}

// removeAccess closes every GPU to the tenant.
func removeAccess() Step {
	return Step{
		Name: "remove_access", Within: quick, Code: wire.StepFailed,
		Check: func(ctx context.Context, h Host, o wire.Order) (bool, error) {
			return look(ctx, h, func(s State) bool { return len(s.granted(o.User)) == 0 })
		},
		Do: noAccess,
		Verify: func(ctx context.Context, h Host, o wire.Order) error {
			return clean(look(ctx, h, func(s State) []string {
				if left := s.granted(o.User); len(left) > 0 {
					return []string{fmt.Sprintf("%s still opens %s", o.User, strings.Join(left, ", "))}
				}
				return nil
			}))
		},
	}
}

func noAccess(ctx context.Context, h Host, o wire.Order) error { return h.Grant(ctx, o.User, nil) }

func otherAccess(s State, o wire.Order) (found []string) {
	if have := s.granted(o.User); !slices.Equal(have, o.GPUs) {
		found = append(found, fmt.Sprintf("account %s opens %d GPUs that are not the %d ordered", o.User, len(have), len(o.GPUs)))
	}
	for _, uuid := range o.GPUs {
		d, _ := s.device(uuid)
		for _, user := range d.Users {
			if user != o.User {
				found = append(found, fmt.Sprintf("%s is also open to %s", uuid, user))
			}
		}
	}
	return found
}
