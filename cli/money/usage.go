package money

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewUsage(a *output.Console) *cobra.Command {
	when := &period{}
	var by string
	limit := client.PageSize
	cmd := &cobra.Command{
		Use: "usage", Short: "Show usage and cost", Args: cobra.NoArgs,
		Example: "  gpuaas usage --from 7d\n  gpuaas usage --by day --from 2026-01-01 --to 2026-02-01",
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, to, err := when.read(a)
			if err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			if by == "" {
				return client.ShowList(cmd.Context(), a, c, limit, Usage(c, oapi.GetUsageParams{From: from, To: to}), usageTable)
			}
			sums := usageSums(c, oapi.GetUsageSummaryParams{From: from, To: to, By: output.PointerOrNil(oapi.GetUsageSummaryParamsBy(by))})
			return client.ShowList(cmd.Context(), a, c, limit, sums, sumTable(by))
		},
	}
	when.flags(cmd)
	cmd.Flags().StringVar(&by, "by", "", "sum it by project, sku, user, allocation or day; day is in UTC")
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	cmd.AddCommand(newUsageIntervals(a), newUsageExport(a))
	return cmd
}

func Usage(c *client.Client, params oapi.GetUsageParams) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		params.Limit, params.Cursor = size, cursor
		return c.GetUsage(ctx, &params, c.InProject)
	}
}

func usageSums(c *client.Client, params oapi.GetUsageSummaryParams) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		params.Limit, params.Cursor = size, cursor
		return c.GetUsageSummary(ctx, &params, c.InProject)
	}
}

func newUsageIntervals(a *output.Console) *cobra.Command {
	when := &period{}
	var allocation string
	cmd := &cobra.Command{
		Use: "intervals", Short: "List usage intervals", Args: cobra.NoArgs,
		Example: "  gpuaas usage intervals --allocation brave-otter -o wide",
	}
	when.flags(cmd)
	cmd.Flags().StringVar(&allocation, "allocation", "", "only of this one, by name or id")
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, _ []string) (client.Pager, error) {
		params := oapi.ListUsageIntervalsParams{}
		var err error
		if params.From, params.To, err = when.read(a); err != nil {
			return nil, err
		}
		params.AllocationId, err = ofAllocation(ctx, c, allocation)
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			params.Limit, params.Cursor = size, cursor
			return c.ListUsageIntervals(ctx, &params, c.InProject)
		}, err
	}, intervalTable)
}

func newUsageExport(a *output.Console) *cobra.Command {
	when := &period{}
	cmd := &cobra.Command{
		Use: "export", Short: "Export usage intervals as CSV", Args: cobra.NoArgs,
		Example: "  gpuaas usage export --from 2026-01-01 --to 2026-02-01 -f january.csv",
	}
	when.flags(cmd)
	return client.ExportCommand(a, cmd, client.TypeCSV, func(_ context.Context, c *client.Client, _ []string) (client.Sender, error) {
		from, to, err := when.read(a)
		return func(ctx context.Context) (*http.Response, error) {
			return c.ExportUsage(ctx, &oapi.ExportUsageParams{From: from, To: to}, c.InProject)
		}, err
	})
}

func usageTable(_ *output.Console, all ...oapi.Usage) output.Table {
	t := output.Table{
		Head: []string{"ALLOCATION", "PROJECT", "SKU", "GPUS", "STARTED", "USED", "STATE", "COST"},
		Wide: []string{"PRICE/H", "CREDITED", "ENDED", "ID", "PROJECT ID"},
	}
	for _, u := range all {
		state := output.SymbolBusy + " open"
		if u.EndedAt != nil {
			state = output.SymbolGood + " closed"
		}
		credited := output.ValueOrZero(u.Credited)
		t.Add("usage/"+u.AllocationId.String(),
			nameOr(u.AllocationName, u.AllocationId), nameOr(u.ProjectName, u.ProjectId), u.Sku, strconv.Itoa(u.Gpus), output.FormatTime(u.StartedAt), output.FormatSeconds(u.Seconds), state,
			output.Amount(u.Cost), output.Amount(u.Price), output.OrDash(none(credited.Currency, credited.AmountMinor)), output.ExpiryText(u.EndedAt), u.AllocationId.String(), u.ProjectId.String())
	}
	return t
}

// nameOr returns a name, or the id of what has none.
func nameOr(name *string, id uuid.UUID) string {
	if output.ValueOrZero(name) == "" {
		return id.String()
	}
	return output.CellText(*name)
}

// sumTable formats sums with the name of their group.
func sumTable(by string) func(*output.Console, ...oapi.UsageSum) output.Table {
	return func(_ *output.Console, all ...oapi.UsageSum) output.Table {
		t := output.Table{Head: []string{strings.ToUpper(by), "USED", "GPU TIME", "CHARGED", "CREDITED", "COST"}, Wide: []string{"KEY"}}
		for _, s := range all {
			t.Add(by+"/"+s.Key, output.CellText(s.Name), output.FormatSeconds(s.Seconds), output.FormatSeconds(s.GpuSeconds), output.Amount(s.Gross), output.OrDash(none(s.Credited.Currency, s.Credited.AmountMinor)),
				output.Amount(s.Cost), output.CellText(s.Key))
		}
		return t
	}
}

func intervalTable(_ *output.Console, all ...oapi.UsageInterval) output.Table {
	t := output.Table{
		Head: []string{"ALLOCATION", "SKU", "GPUS", "PRICE/H", "STARTED", "BEGAN BY", "USED", "ENDED BY", "COST", "CREDITED"},
		Wide: []string{"ENDED", "BEGAN ON", "ENDED ON", "CREDITED FOR", "ALLOCATION ID", "PROJECT", "ID"},
	}
	for _, i := range all {
		t.Add("interval/"+i.Id.String(),
			nameOr(i.AllocationName, i.AllocationId), i.Sku, strconv.Itoa(i.Gpus), output.Amount(i.Price), output.FormatTime(i.StartedAt), string(i.OpenedBy), output.FormatSeconds(i.Seconds),
			output.OrDash(string(output.ValueOrZero(i.ClosedBy))), output.Amount(i.Cost), output.OrDash(none(i.Credited.Currency, i.Credited.AmountMinor)),
			output.ExpiryText(i.EndedAt), observation(i.OpenedObservation), observation(i.ClosedObservation), output.OrDash(string(output.ValueOrZero(i.CreditedBecause))),
			i.AllocationId.String(), nameOr(i.ProjectName, i.ProjectId), i.Id.String())
	}
	return t
}

// observation formats a node's observation on one line.
func observation(seen *map[string]any) string {
	if seen == nil {
		return "-"
	}
	text, err := json.Marshal(*seen)
	if err != nil {
		return "?"
	}
	return output.CellText(string(text))
}
