package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/cli/output"
)

const watchEvery = 2 * time.Second

// watch reads a list again and again, and prints the items that are new or have changed. A row changes by itself, such as
// its age, so that items are compared and not rows.
func watch[T any](ctx context.Context, a *output.Console, c *Client, limit int, next Pager, show func(a *output.Console, all ...T) output.Table) error {
	earlier := map[string]string{}
	for {
		all, err := ReadAll[T](ctx, c, limit, next)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // interrupted, as the help says
		}
		if err != nil {
			return err
		}
		if err := showChanged(a, earlier, all.Items, show); err != nil {
			return err
		}
		a.NoHeaders = a.NoHeaders || len(earlier) > 0
		if Sleep(ctx, watchEvery) != nil {
			return nil //nolint:nilerr // interrupted
		}
	}
}

// showChanged prints the items that differ from those earlier before, and names those that are gone.
func showChanged[T any](a *output.Console, earlier map[string]string, items []T, show func(a *output.Console, all ...T) output.Table) error {
	names := show(a, items...).Names
	if len(names) != len(items) {
		return fmt.Errorf("%d items have %d names", len(items), len(names))
	}
	gone := map[string]bool{}
	for name := range earlier {
		gone[name] = true
	}
	var changed []T
	for i, item := range items {
		delete(gone, names[i])
		text, err := json.Marshal(item)
		if err != nil {
			return fmt.Errorf("comparing: %w", err)
		}
		if earlier[names[i]] != string(text) {
			earlier[names[i]], changed = string(text), append(changed, item)
		}
	}
	for name := range gone {
		delete(earlier, name)
		a.Notify("%s is gone", name)
	}
	if len(changed) == 0 {
		return nil
	}
	raw, err := output.Encode(map[string]any{"items": changed})
	if err != nil {
		return err
	}
	return a.Show(raw, show(a, changed...))
}
