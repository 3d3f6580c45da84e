package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func newUsage(a *app) *cobra.Command {
	when := &period{}
	var by string
	limit := pageSize
	cmd := &cobra.Command{
		Use: "usage", Short: "Measured use and what it comes to", Args: cobra.NoArgs,
		Example: "  gpuaas usage --from 7d\n  gpuaas usage --by day --from 2026-01-01 --to 2026-02-01",
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, to, err := when.read(a)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if by == "" {
				return shown(cmd.Context(), a, c, limit, c.usage(oapi.GetUsageParams{From: from, To: to}), usageTable)
			}
			sums := c.usageSums(oapi.GetUsageSummaryParams{From: from, To: to, By: set(oapi.GetUsageSummaryParamsBy(by))})
			return shown(cmd.Context(), a, c, limit, sums, sumTable(by))
		},
	}
	when.flags(cmd)
	cmd.Flags().StringVar(&by, "by", "", "sum it by project, sku, user, allocation or day; day is in UTC")
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	cmd.AddCommand(newUsageIntervals(a), newUsageExport(a))
	return cmd
}

func (c *client) usage(params oapi.GetUsageParams) pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		params.Limit, params.Cursor = size, cursor
		return c.GetUsage(ctx, &params, c.inProject)
	}
}

func (c *client) usageSums(params oapi.GetUsageSummaryParams) pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		params.Limit, params.Cursor = size, cursor
		return c.GetUsageSummary(ctx, &params, c.inProject)
	}
}

func newUsageIntervals(a *app) *cobra.Command {
	when := &period{}
	var allocation string
	cmd := &cobra.Command{
		Use: "intervals", Short: "What is behind a charge: each stretch of metered time, why it began and why it ended", Args: cobra.NoArgs,
		Example: "  gpuaas usage intervals --allocation brave-otter -o wide",
	}
	when.flags(cmd)
	cmd.Flags().StringVar(&allocation, "allocation", "", "only of this one, by name or id")
	return lists(a, cmd, func(ctx context.Context, c *client, _ []string) (pager, error) {
		params := oapi.ListUsageIntervalsParams{}
		var err error
		if params.From, params.To, err = when.read(a); err != nil {
			return nil, err
		}
		params.AllocationId, err = c.ofAllocation(ctx, allocation)
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			params.Limit, params.Cursor = size, cursor
			return c.ListUsageIntervals(ctx, &params, c.inProject)
		}, err
	}, intervalTable)
}

func newUsageExport(a *app) *cobra.Command {
	when := &period{}
	cmd := &cobra.Command{
		Use: "export", Short: "The intervals as CSV, all of them, with amounts in the minor unit", Args: cobra.NoArgs,
		Example: "  gpuaas usage export --from 2026-01-01 --to 2026-02-01 -f january.csv",
	}
	when.flags(cmd)
	return exports(a, cmd, typeCSV, func(_ context.Context, c *client, _ []string) (sender, error) {
		from, to, err := when.read(a)
		return func(ctx context.Context) (*http.Response, error) {
			return c.ExportUsage(ctx, &oapi.ExportUsageParams{From: from, To: to}, c.inProject)
		}, err
	})
}

func usageTable(_ *app, all ...oapi.Usage) table {
	t := table{
		head: []string{"ALLOCATION", "SKU", "GPUS", "STARTED", "USED", "STATE", "COST"},
		wide: []string{"PRICE/H", "CREDITED", "ENDED", "PROJECT"},
	}
	for _, u := range all {
		state := symbolBusy + " open"
		if u.EndedAt != nil {
			state = symbolGood + " closed"
		}
		credited := deref(u.Credited)
		t.add("usage/"+u.AllocationId.String(),
			u.AllocationId.String(), u.Sku, strconv.Itoa(u.Gpus), stamp(u.StartedAt), lasting(u.Seconds), state,
			amount(u.Cost), amount(u.Price), orDash(none(credited.Currency, credited.AmountMinor)), until(u.EndedAt), u.ProjectId.String())
	}
	return t
}

// sumTable shows sums under the word that they are by.
func sumTable(by string) func(*app, ...oapi.UsageSum) table {
	return func(_ *app, all ...oapi.UsageSum) table {
		t := table{head: []string{strings.ToUpper(by), "USED", "GPU TIME", "CHARGED", "CREDITED", "COST"}, wide: []string{"KEY"}}
		for _, s := range all {
			t.add(by+"/"+s.Key, cell(s.Name), lasting(s.Seconds), lasting(s.GpuSeconds), amount(s.Gross), orDash(none(s.Credited.Currency, s.Credited.AmountMinor)),
				amount(s.Cost), cell(s.Key))
		}
		return t
	}
}

func intervalTable(_ *app, all ...oapi.UsageInterval) table {
	t := table{
		head: []string{"ALLOCATION", "SKU", "GPUS", "PRICE/H", "STARTED", "BEGAN BY", "USED", "ENDED BY", "COST", "CREDITED"},
		wide: []string{"ENDED", "BEGAN ON", "ENDED ON", "CREDITED FOR", "ID"},
	}
	for _, i := range all {
		t.add("interval/"+i.Id.String(),
			i.AllocationId.String(), i.Sku, strconv.Itoa(i.Gpus), amount(i.Price), stamp(i.StartedAt), string(i.OpenedBy), lasting(i.Seconds),
			orDash(string(deref(i.ClosedBy))), amount(i.Cost), orDash(none(i.Credited.Currency, i.Credited.AmountMinor)),
			until(i.EndedAt), observation(i.OpenedSeen), observation(i.ClosedSeen), orDash(string(deref(i.CreditedBecause))), i.Id.String())
	}
	return t
}

// observation is what was seen of a machine, on one line.
func observation(seen *map[string]any) string {
	if seen == nil {
		return "-"
	}
	text, err := json.Marshal(*seen)
	if err != nil {
		return "?"
	}
	return cell(string(text))
}
