package money

import (
	"context"
	"net/http"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/cli/people"
)

const limitsText = `Shows the spend limits of the tenant or, with --project, of one project. --hourly,
--monthly and --clear change them. Beyond a limit the server rejects new allocations;
active allocations continue. 0 means no limit. The limit of the platform is an upper
bound: IN FORCE is the lower of the two. The platform's default applies only until you
set a limit, even 0.`

func newLimits(a *output.Console) *cobra.Command {
	var hourly, monthly string
	var remove bool
	cmd := &cobra.Command{
		Use: "limits", Short: "Show or set spend limits", Long: limitsText, Args: cobra.NoArgs,
		Example: "  gpuaas balance limits --hourly 50 --monthly 1000\n  gpuaas balance limits --project vision --hourly 10",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			// Only a project that is named here. The profile's project is a default for other
			// commands, and limits without a project are the tenant's.
			var project *uuid.UUID
			if a.Project != "" {
				p, err := people.ProjectOf(cmd.Context(), c, []string{a.Project})
				if err != nil {
					return err
				}
				project = &p.Value.Id
			}
			limits, err := limits(cmd.Context(), c, project)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("hourly") || cmd.Flags().Changed("monthly") || remove {
				if limits, err = limit(c, cmd, limits.Value, project, hourly, monthly); err != nil {
					return err
				}
			}
			return a.Show(limits.Raw, limitsTable(limits.Value))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&hourly, "hourly", "", "maximum cost per hour of all allocations, for example 50")
	flags.StringVar(&monthly, "monthly", "", "maximum cost per calendar month (UTC)")
	flags.BoolVar(&remove, "clear", false, "remove both limits")
	cmd.MarkFlagsMutuallyExclusive("clear", "hourly")
	cmd.MarkFlagsMutuallyExclusive("clear", "monthly")
	return cmd
}

func limits(ctx context.Context, c *client.Client, project *uuid.UUID) (client.Response[oapi.BillingLimits], error) {
	return client.Send[oapi.BillingLimits](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.GetBillingLimits(ctx, &oapi.GetBillingLimitsParams{ProjectId: project})
	})
}

// limit changes the named limits and sends the others as they were read.
func limit(c *client.Client, cmd *cobra.Command, now oapi.BillingLimits, project *uuid.UUID, hourly, monthly string) (client.Response[oapi.BillingLimits], error) {
	var body oapi.BillingLimitsRequest
	for _, l := range []struct {
		flag, text string
		to         **int64
	}{{"hourly", hourly, &body.HourlySpendMinor}, {"monthly", monthly, &body.MonthlyBudgetMinor}} {
		switch {
		case cmd.Flags().Changed("clear"):
			*l.to = new(int64)
		case cmd.Flags().Changed(l.flag):
			v, err := amountIn(now.Currency, "--"+l.flag, l.text)
			if err != nil {
				return client.Response[oapi.BillingLimits]{}, err
			}
			*l.to = &v
		}
	}
	match := strconv.Quote(now.Version)
	return client.Change[oapi.BillingLimits](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.PutBillingLimits(ctx, &oapi.PutBillingLimitsParams{ProjectId: project, IfMatch: &match}, body, once)
	})
}

func limitsTable(l oapi.BillingLimits) output.Table {
	t := output.Table{Head: []string{"PER", "LIMIT", "IN FORCE", "NOW"}, Wide: []string{"SET BY GIT"}}
	for _, r := range []struct {
		name, per       string
		own, force, now int64
		git             *string
	}{
		{"hourly", "hour", l.HourlySpendMinor, l.EffectiveHourlySpendMinor, l.CommittedPerHourMinor, l.HourlyManagedBy},
		{"monthly", "month", l.MonthlyBudgetMinor, l.EffectiveMonthlyBudgetMinor, l.SpentThisMonthMinor, l.MonthlyManagedBy},
	} {
		t.Add("limit/"+r.name, r.per, output.OrDash(none(l.Currency, r.own)), output.OrDash(none(l.Currency, r.force)), output.ParseAmount(l.Currency, r.now), output.CellText(output.ValueOrZero(r.git)))
	}
	return t
}
