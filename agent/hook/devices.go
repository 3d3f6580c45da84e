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
		Do: func(ctx context.Context, h Host, o wire.Order) error {
			if err := shutOut(ctx, h, o); err != nil {
				return err
			}
			return h.Grant(ctx, o.User, o.GPUs)
		},
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

// shutOut closes the ordered GPUs to whoever else opens them. Nobody else may: the
// slot has one holder, and whoever was let in was let in behind our back.
func shutOut(ctx context.Context, h Host, o wire.Order) error {
	s, err := h.Look(ctx)
	if err != nil {
		return fmt.Errorf("looking at the host: %w", err)
	}
	for _, user := range s.others(o) {
		keeps := slices.DeleteFunc(s.granted(user), func(gpu string) bool { return slices.Contains(o.GPUs, gpu) })
		if err := h.Grant(ctx, user, keeps); err != nil {
			return err
		}
	}
	return nil
}

// others are who opens the ordered GPUs beside the tenant, each once.
func (s State) others(o wire.Order) (users []string) {
	for _, gpu := range o.GPUs {
		d, _ := s.device(gpu)
		for _, user := range d.Users {
			if user != o.User && !slices.Contains(users, user) {
				users = append(users, user)
			}
		}
	}
	return users
}

func noAccess(ctx context.Context, h Host, o wire.Order) error { return h.Grant(ctx, o.User, nil) }

func otherAccess(s State, o wire.Order) (found []string) {
	if have := s.granted(o.User); !slices.Equal(have, o.GPUs) {
		found = append(found, fmt.Sprintf("access: %s opens %d GPUs that are not those ordered, ordered %d", o.User, len(have), len(o.GPUs)))
	}
	for _, uuid := range o.GPUs {
		d, _ := s.device(uuid)
		for _, user := range d.Users {
			if user != o.User {
				found = append(found, fmt.Sprintf("access: %s is also open to %s, ordered nobody else", uuid, user))
			}
		}
	}
	return found
}
