package fleet

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// NewOverview returns the command that shows the state of the platform.
func NewOverview(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "overview", Short: "Show the state of the platform", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			got, err := client.Send[oapi.OpsOverview](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) { return c.GetOpsOverview(ctx) })
			if err != nil {
				return err
			}
			return a.Show(got.Raw, panelTable(got.Value.Panels))
		},
	}
}

func panelTable(all []oapi.OpsPanel) output.Table {
	t := output.Table{Head: []string{"PANEL", "STATUS", "VALUES", "MESSAGE"}, Wide: []string{"RUNBOOK"}}
	for _, p := range all {
		symbol := map[oapi.OpsPanelStatus]string{oapi.OpsPanelStatusOk: output.SymbolGood, oapi.OpsPanelStatusDegraded: output.SymbolBad}[p.Status]
		var values []string
		for _, name := range slices.Sorted(maps.Keys(p.Values)) {
			values = append(values, fmt.Sprintf("%s=%d", name, p.Values[name]))
		}
		t.Add("panel/"+string(p.Name), string(p.Name), strings.TrimSpace(symbol+" "+string(p.Status)), output.OrDash(strings.Join(values, " ")), output.OrDash(p.Message), p.RunbookId)
	}
	return t
}

// newNodeBreaker returns the command that clears the breaker of automatic holds.
func newNodeBreaker(a *output.Console) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "clear-breaker", Short: "Clear the breaker", Args: cobra.NoArgs,
		Long: `The breaker stops automatic holds when too many nodes get one in a short time. After this
command the platform sets holds by itself again. "gpuaas admin overview" shows the breaker.`,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required")
	_ = cmd.MarkFlagRequired("reason")
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.ClearBreaker(ctx, nil, oapi.Reason{Reason: reason}, once)
		}, nil
	}, func(_ *output.Console, all ...oapi.BreakerTrip) output.Table {
		t := output.Table{Head: []string{"TRIPPED", "HELD", "ALLOWED", "FLEET", "REJECTED", "REASON"}}
		for _, b := range all {
			t.Add("breaker/"+b.Id.String(), output.FormatTime(b.TrippedAt), output.Itoa(int64(b.Held)), output.Itoa(int64(b.Allowed)), output.Itoa(int64(b.Fleet)),
				output.Itoa(int64(b.RejectedNodes)), output.CellText(b.Reason))
		}
		return t
	})
}
