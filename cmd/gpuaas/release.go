package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func newAllocRelease(a *app) *cobra.Command {
	var wait, yes bool
	timeout := 10 * time.Minute
	cmd := &cobra.Command{
		Use: "release NAME", Short: "Give the GPUs back; charging stops at once", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.mustAsk(yes, "alloc release"); err != nil {
				return err
			}
			return a.release(cmd.Context(), args[0], yes, wait, timeout)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&wait, "wait", false, "wait until it is clean and released")
	flags.DurationVar(&timeout, "timeout", timeout, "how long to wait")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask for the name")
	return cmd
}

func (a *app) release(ctx context.Context, ref string, yes, wait bool, timeout time.Duration) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	found, err := c.find(ctx, ref)
	if err != nil {
		return err
	}
	one := found.Value
	if !yes {
		what := fmt.Sprintf("%s (%d × %s, %s, cost so far %s) is wiped and cannot come back.", one.Name, one.Gpus, one.Sku, one.Status, amount(one.Cost))
		if err := a.confirmName(ctx, one.Name, what, "nothing was released"); err != nil {
			return err
		}
	}
	once := intent()
	released, err := ask[oapi.Allocation](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.ReleaseAllocation(ctx, one.Id, nil, oapi.Nothing{}, c.inProject, once)
	})
	if err != nil {
		return err
	}
	if !wait {
		a.say("%s %s is %s; cost so far %s", symbolBusy, one.Name, released.Value.Status, amount(released.Value.Cost))
		return a.showAllocation(released)
	}
	return a.await(ctx, c, released, timeout, untilReleased)
}
