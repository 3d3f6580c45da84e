package hook

import (
	"context"
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaas/agent/wire"
)

// loginKeys lets the tenant in, and nobody else.
func loginKeys() Step {
	return Step{
		Name: "login_keys", Within: quick, Code: wire.StepFailed,
		Check: func(ctx context.Context, h Host, o wire.Order) (bool, error) {
			return look(ctx, h, func(s State) bool { return len(otherKeys(s, o)) == 0 })
		},
		Do: func(ctx context.Context, h Host, o wire.Order) error { return h.SetKeys(ctx, o.User, o.PublicKeys) },
		Verify: func(ctx context.Context, h Host, o wire.Order) error {
			return clean(look(ctx, h, func(s State) []string { return otherKeys(s, o) }))
		},
		Undo: noLogin,
	}
}

// blockLogin is first of all when a tenant leaves: what is killed afterwards must
// not come back.
func blockLogin() Step {
	return Step{
		Name: "block_login", Within: quick, Code: wire.StepFailed,
		Check: func(ctx context.Context, h Host, o wire.Order) (bool, error) {
			return look(ctx, h, func(s State) bool { a, _ := s.account(o.User); return len(a.Keys) == 0 })
		},
		Do: noLogin,
		Verify: func(ctx context.Context, h Host, o wire.Order) error {
			return clean(look(ctx, h, func(s State) []string {
				if a, _ := s.account(o.User); len(a.Keys) > 0 {
					return []string{fmt.Sprintf("%d keys still open %s", len(a.Keys), o.User)}
				}
				return nil
			}))
		},
	}
}

func noLogin(ctx context.Context, h Host, o wire.Order) error {
	there, err := look(ctx, h, func(s State) bool { _, ok := s.account(o.User); return ok })
	if err != nil || !there {
		return err
	}
	return h.SetKeys(ctx, o.User, nil)
}

func otherKeys(s State, o wire.Order) []string {
	a, ok := s.account(o.User)
	if !ok {
		return missingAccount(s, o)
	}
	have, want := slices.Sorted(slices.Values(a.Keys)), slices.Sorted(slices.Values(o.PublicKeys))
	if !slices.Equal(have, want) {
		others := slices.DeleteFunc(slices.Clone(have), func(key string) bool { return slices.Contains(want, key) })
		return []string{fmt.Sprintf("keys: %d login keys open %s and %d of them are others', ordered %d", len(have), o.User, len(others), len(want))}
	}
	return nil
}
