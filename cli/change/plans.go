package change

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewGetPlans(a *output.Console) *cobra.Command {
	limit := 50
	var origin, source, status string
	cmd := &cobra.Command{
		Use: "plans", Aliases: []string{"plan"}, Short: "List plans", Args: cobra.NoArgs,
		Example: "  gpuaas get plans --origin change --status proposed",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			all, err := Plans(cmd.Context(), c, limit, oapi.ListPlansParams{
				Origin: output.PointerOrNil(oapi.ListPlansParamsOrigin(origin)), Source: output.PointerOrNil(source), Status: output.PointerOrNil(oapi.ListPlansParamsStatus(status)),
			})
			if err != nil {
				return err
			}
			a.NotifyMore(limit, all.More)
			return a.Show(all.Raw, planTable(a.Clock.Now(), all.Items))
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	cmd.Flags().StringVar(&origin, "origin", "", "only plans of the loop, or only those of a change")
	cmd.Flags().StringVar(&source, "source", "", "only of this source")
	cmd.Flags().StringVar(&status, "status", "", "only in this state: proposed, approved, applied, stale, rejected")
	return cmd
}

func planTable(now time.Time, all []oapi.Plan) output.Table {
	t := output.Table{Head: []string{"NAME", "STATUS", "ACTIONS", "HELD", "AGE", "SOURCE", "COMMIT", "SUMMARY"}, Wide: []string{"PULL", "AUTHOR", "DECIDED BY", "HASH"}}
	for _, p := range all {
		pull := "-"
		if p.PullRequest != nil {
			pull = strconv.Itoa(*p.PullRequest)
		}
		t.Add("plan/"+p.Id.String(), p.Id.String(), string(p.Status), strconv.Itoa(p.Actions), strconv.Itoa(p.Blocked), output.Age(now, p.CreatedAt),
			output.CellText(output.ValueOrZero(p.Source)), short(output.ValueOrZero(p.Commit)), output.CellText(output.ValueOrZero(p.Summary)), pull, output.CellText(output.ValueOrZero(p.Author)), output.CellText(output.ValueOrZero(p.DecidedBy)), p.Hash)
	}
	return t
}

func Plans(ctx context.Context, c *client.Client, limit int, which oapi.ListPlansParams) (client.List[oapi.Plan], error) {
	return client.ReadAll[oapi.Plan](ctx, c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		which.Limit, which.Cursor = size, cursor
		return c.ListPlans(ctx, &which)
	})
}

func Plan(ctx context.Context, c *client.Client, id uuid.UUID) (client.Response[oapi.PlanDetail], error) {
	return client.Send[oapi.PlanDetail](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetPlan(ctx, id) })
}

// PlanNamed reads a plan by what a person calls it.
func PlanNamed(ctx context.Context, c *client.Client, name string) (client.Response[oapi.PlanDetail], error) {
	id, ok := client.PlanRef(name)
	if !ok {
		f := output.UsageError("%q is no id of a plan", name)
		f.Try = "gpuaas get plans"
		return client.Response[oapi.PlanDetail]{}, f
	}
	return Plan(ctx, c, id)
}

func DescribePlan(ctx context.Context, a *output.Console, c *client.Client, name string) error {
	found, err := PlanNamed(ctx, c, name)
	if err != nil {
		return err
	}
	p := found.Value
	if p.Change != nil && !a.Data() && a.Format() != "name" {
		if err := ShowPlan(a, found); err != nil {
			return err
		}
		_, err := fmt.Fprint(a.Out, "\n")
		if err != nil {
			return fmt.Errorf("writing result: %w", err)
		}
	}
	facts := [][2]string{
		{"Plan", p.Id.String()},
		{"Origin", string(output.ValueOrZero(p.Origin))},
		{"Status", string(p.Status)},
		{"Hash", p.Hash},
		{"Made", output.FormatTime(p.CreatedAt)},
		{"Source", output.CellText(output.ValueOrZero(p.Source))},
		{"Commit", output.ValueOrZero(p.Commit)},
		{"Author", output.CellText(output.ValueOrZero(p.Author))},
		{"Decided", decisionOf(p)},
		{"Applied", output.FormatTime(output.ValueOrZero(p.AppliedAt))},
	}
	sections := []output.Section{{Fields: facts}}
	if p.Change == nil {
		sections = append(sections, output.Section{Title: "Steps:", Table: stepTable(p.Steps)})
	}
	return a.Describe("plan/"+p.Id.String(), map[string]json.RawMessage{"plan": found.Raw}, sections...)
}

func decisionOf(p oapi.PlanDetail) string {
	if p.DecidedBy == nil {
		return ""
	}
	return output.CellText(strings.TrimSuffix(*p.DecidedBy+" at "+output.FormatTime(output.ValueOrZero(p.DecidedAt))+": "+output.ValueOrZero(p.Decision), ": "))
}

func stepTable(all []oapi.PlanAction) output.Table {
	t := output.Table{Head: []string{"KIND", "OBJECT", "VERB", "FENCE", "GENERATION", "REASON", "HELD"}, Wide: []string{"NODE"}}
	for _, s := range all {
		t.Add("", s.Kind, s.ObjectId.String(), strings.TrimSpace(s.Verb+" "+s.Event), output.Itoa(s.Fence), output.Itoa(s.Generation), output.CellText(s.Reason), output.CellText(s.Blocked), nodeOf(s.NodeId))
	}
	return t
}

func nodeOf(id *uuid.UUID) string {
	if id == nil {
		return "-"
	}
	return id.String()
}
