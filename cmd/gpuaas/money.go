package main

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/money"
)

func (c *client) balance(ctx context.Context) (answer[oapi.Balance], error) {
	return ask[oapi.Balance](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetBalance(ctx, nil, c.inProject) })
}

func newBalance(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "balance", Short: "What you have, what you burn, how long it lasts", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.balance(cmd.Context())
			if err != nil {
				return err
			}
			b := got.Value
			lasts := "for ever (nothing is burnt)"
			if b.RunwaySeconds != nil {
				lasts = lasting(*b.RunwaySeconds)
			}
			t := table{head: []string{"BALANCE", "BURN/H", "LASTS"}}
			t.add("balance/"+b.Currency, money.Format(b.Currency, money.Minor(b.AmountMinor)), money.Format(b.Currency, money.Minor(b.BurnMinorPerHour)), lasts)
			return a.show(got.Raw, t)
		},
	}
}

func newUsage(a *app) *cobra.Command {
	var from, to string
	limit := pageSize
	cmd := &cobra.Command{
		Use: "usage", Short: "Measured use and what it comes to", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			params, err := a.period(from, to)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			all, err := c.usage(cmd.Context(), params, limit)
			if err != nil {
				return err
			}
			a.moreThan(limit, all.More)
			return a.show(all.Raw, usageTable(all.Items))
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "start: RFC 3339, a day, or how long ago, like 7d; this month when left out")
	cmd.Flags().StringVar(&to, "to", "", "end, in the same forms; now when left out")
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	return cmd
}

func (c *client) usage(ctx context.Context, params oapi.GetUsageParams, limit int) (list[oapi.Usage], error) {
	return readAll[oapi.Usage](ctx, c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		params.Limit, params.Cursor = size, cursor
		return c.GetUsage(ctx, &params, c.inProject)
	})
}

func (a *app) period(from, to string) (p oapi.GetUsageParams, err error) {
	if p.From, err = a.moment("--from", from); err != nil {
		return p, err
	}
	p.To, err = a.moment("--to", to)
	return p, err
}

// moment reads a time, a day, or a length of time before now.
func (a *app) moment(flag, text string) (*time.Time, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // left out is a value: the server's default
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return &t, nil
		}
	}
	span, err := parseSpan(text)
	if err != nil {
		return nil, usage("%s: %q is no time like 2026-01-05T09:00:00Z, 2026-01-05 or 7d", flag, text)
	}
	t := a.Clock.Now().Add(-span)
	return &t, nil
}

func usageTable(all []oapi.Usage) table {
	t := table{
		head: []string{"ALLOCATION", "SKU", "GPUS", "STARTED", "USED", "STATE", "COST"},
		wide: []string{"PRICE/H", "ENDED", "PROJECT"},
	}
	for _, u := range all {
		state, end := symbolBusy+" open", "-"
		if u.EndedAt != nil {
			state, end = symbolGood+" closed", u.EndedAt.UTC().Format(time.RFC3339)
		}
		t.add("usage/"+u.AllocationId.String(),
			u.AllocationId.String(), u.Sku, strconv.Itoa(u.Gpus), u.StartedAt.UTC().Format(time.RFC3339), lasting(u.Seconds), state,
			amount(u.Cost), amount(u.Price), end, u.ProjectId.String())
	}
	return t
}
