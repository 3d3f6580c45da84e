// Package inspect contains the commands that show resources: get, describe, drift, events, trace, wait.
package inspect

import (
	"context"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/alloc"
	"github.com/gpuaas/gpuaas/cli/change"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/fleet"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewGet(a *output.Console) *cobra.Command {
	allocations := alloc.NewAllocList(a, "allocations")
	allocations.Aliases = []string{"allocation", "alloc", "allocs"}
	get := output.Group("get", "List or show resources", fleet.NewGetNodes(a), alloc.NewGetSkus(a), allocations, change.NewGetPlans(a), change.NewGetRevisions(a),
		change.NewGetSources(a), newDriftList(a, "drift"), change.NewPolicyList(a, "policies"), newGetObjects(a))
	get.Example = "  gpuaas get nodes\n  gpuaas get node/gpu-07 -o yaml"
	get.ValidArgsFunction = client.CompleteResources(a, client.WordSource, client.WordRevision, client.WordPlan)
	get.RunE = named(a, getOne)
	return get
}

// named completes a command group that also accepts KIND/NAME.
func named(a *output.Console, do func(ctx context.Context, a *output.Console, c *client.Client, t client.ResourceRef) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || !strings.Contains(args[0], "/") {
			return output.Overview(cmd, args)
		}
		t, err := client.ParseResourceRef(args[0])
		if err != nil {
			return err
		}
		c, err := client.Connect(a)
		if err != nil {
			return err
		}
		return do(cmd.Context(), a, c, t)
	}
}

// getOne shows what KIND/NAME names; of a declared object the declaration.
func getOne(ctx context.Context, a *output.Console, c *client.Client, t client.ResourceRef) error {
	switch t.KindName {
	case client.WordSource:
		got, err := c.Source(ctx, t.Name)
		if err != nil {
			return err
		}
		return a.Show(got.Raw, change.SourceTable(a, got.Value))
	case client.WordRevision:
		got, err := change.Revision(ctx, c, t.Name)
		if err != nil {
			return err
		}
		return a.Show(got.Raw, change.RevisionTable(a.Clock.Now(), []oapi.Revision{got.Value}))
	case client.WordPlan:
		got, err := change.PlanNamed(ctx, c, t.Name)
		if err != nil {
			return err
		}
		return change.ShowPlan(a, got)
	case client.WordDrift:
		return noSingleDrift()
	}
	t, err := c.Placed(ctx, t)
	if err != nil {
		return err
	}
	got, err := c.Desired(ctx, t)
	if err != nil {
		return err
	}
	return a.Show(got.Raw, client.ObjectTable(a, got.Value))
}

func newGetObjects(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use: "objects KIND", Aliases: []string{"object"}, Short: "List desired objects of a kind", Args: cobra.ExactArgs(1),
		Example: "  gpuaas get objects policy", ValidArgs: client.KindWords(),
	}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Pager, error) {
		kind, err := client.KindNamed(args[0])
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListDesired(ctx, kind, &oapi.ListDesiredParams{Limit: size, Cursor: cursor})
		}, err
	}, client.ObjectTable)
}
