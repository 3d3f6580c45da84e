package fleet

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewGetNodes(a *output.Console) *cobra.Command {
	limit := client.PageSize
	cmd := &cobra.Command{
		Use: "nodes", Aliases: []string{"node"}, Short: "List nodes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			all, err := Nodes(cmd.Context(), c, limit)
			if client.IsForbidden(err) {
				a.Notify("Only operators can list nodes%s. The table contains the capacity of the fleet.", client.OperatorHint(a))
				return capacity(cmd.Context(), a, c)
			}
			if err != nil {
				return err
			}
			a.NotifyMore(limit, all.More)
			return a.Show(all.Raw, nodeTable(a.Clock.Now(), all.Items...))
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	return cmd
}

func Nodes(ctx context.Context, c *client.Client, limit int) (client.List[oapi.Node], error) {
	return client.ReadAll[oapi.Node](ctx, c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListAdminNodes(ctx, &oapi.ListAdminNodesParams{Limit: size, Cursor: cursor})
	})
}

func nodeTable(now time.Time, all ...oapi.Node) output.Table {
	t := output.Table{
		Head: []string{"NAME", "READY", "STATUS", "HEALTH", "REACHABLE", "SKU", "FREE", "REGION", "AGE", "MESSAGE"},
		Wide: []string{"OCCUPANCY", "ONBOARDING", "ID"},
	}
	for _, n := range all {
		t.Add("node/"+n.Name,
			n.Name, output.ConditionSymbol(NodeReady(n)), nodeStatus(n), string(n.Health), string(n.Reachability), n.Sku,
			fmt.Sprintf("%d/%d", n.Free, n.Slots), n.Region, output.Age(now, output.BornAt(n.Id)), output.OrDash(n.Message),
			string(n.Occupancy), string(n.Onboarding), n.Id.String())
	}
	return t
}

// NodeReady merges the states of a node into one table column. A node with stale reports is neither
// ready nor not ready: its state is unknown.
func NodeReady(n oapi.Node) oapi.ConditionStatus {
	switch {
	case n.Reachability != oapi.NodeReachabilityReachable || n.Health == oapi.NodeHealthUnknown:
		return oapi.ConditionStatusUnknown
	case n.Lifecycle == oapi.NodeLifecycleActive && n.Health != oapi.NodeHealthUnhealthy && !n.Cordoned:
		return oapi.ConditionStatusTrue
	default:
		return oapi.ConditionStatusFalse
	}
}

func capacity(ctx context.Context, a *output.Console, c *client.Client) error {
	got, err := client.Send[oapi.CapacityList](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetNodeCapacity(ctx) })
	if err != nil {
		return err
	}
	t := output.Table{Head: []string{"SKU", "REGION", "NODES", "GPUS", "FREE"}}
	for _, p := range got.Value.Items {
		t.Add("capacity/"+p.Sku+"/"+p.Region, p.Sku, p.Region, strconv.Itoa(p.Nodes), strconv.Itoa(p.Total), strconv.Itoa(p.Free))
	}
	return a.Show(got.Raw, t)
}
