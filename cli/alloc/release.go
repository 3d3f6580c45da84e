package alloc

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func newAllocRelease(a *output.Console) *cobra.Command {
	var wait, yes bool
	timeout := 10 * time.Minute
	cmd := &cobra.Command{
		Use: "release NAME", Short: "Release an allocation", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.RequireConfirmation(yes, "alloc release"); err != nil {
				return err
			}
			return release(cmd.Context(), a, args[0], yes, wait, timeout)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&wait, "wait", false, "wait until it is clean and released")
	flags.DurationVar(&timeout, "timeout", timeout, "how long to wait")
	flags.BoolVarP(&yes, "yes", "y", false, "do not prompt for the name")
	return cmd
}

func release(ctx context.Context, a *output.Console, ref string, yes, wait bool, timeout time.Duration) error {
	c, err := client.Connect(a)
	if err != nil {
		return err
	}
	found, err := c.Find(ctx, ref)
	if err != nil {
		return err
	}
	one := found.Value
	if !yes {
		what := fmt.Sprintf("%s (%d × %s, %s, cost so far %s) is erased and cannot be restored.", one.Name, one.Gpus, one.Sku, one.Status, output.Amount(one.Cost))
		if err := a.ConfirmName(ctx, one.Name, what, "nothing was released"); err != nil {
			return err
		}
	}
	once := client.IdempotencyKey()
	released, err := client.Send[oapi.Allocation](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.ReleaseAllocation(ctx, one.Id, nil, oapi.Empty{}, c.InProject, once)
	})
	if err != nil {
		return err
	}
	if !wait {
		a.Notify("%s %s is %s; cost so far %s", output.SymbolBusy, one.Name, released.Value.Status, output.Amount(released.Value.Cost))
		return showAllocation(a, released)
	}
	return await(ctx, a, c, released, timeout, untilReleased)
}
