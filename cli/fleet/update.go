package fleet

import (
	"context"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/change"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/policies"
)

const updateText = `Sets the agent version of a node, or of all nodes without a name. The nodes are updated in rings,
as the policy node.update_ring_percent defines; gpuaas agent list prints the progress. An empty
version leaves each node unchanged. If Git sets the value, the server rejects the change and
names the file and the line to edit.`

// newUpdate declares the version: the policy key node.agent_version at the scope of
// the node, or of the platform.
func newUpdate(a *output.Console) *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use: "update [NODE]", Short: "Set the agent version", Long: updateText, Args: cobra.MaximumNArgs(1),
		Example: "  gpuaas agent update gpu-node-01 --version v1.4.0\n  gpuaas agent update --version v1.4.0",
	}
	client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		if !cmd.Flags().Changed("version") {
			return nil, output.UsageError("which version? --version V, or --version '' to leave it as it is")
		}
		key, _, err := change.PolicyKey(ctx, c, string(policies.NodeAgentVersion))
		if err != nil {
			return nil, err
		}
		value, err := change.PolicyValue(key, version)
		if err != nil {
			return nil, err
		}
		scope := string(policies.Platform)
		if len(args) == 1 {
			scope = string(policies.In(policies.LevelNode, nodeNamed(args[0])))
		}
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.PutPolicy(ctx, key.Key, nil, oapi.PolicyWrite{Scope: &scope, Value: value}, once, change.IfUnchanged(key, scope))
		}, nil
	}, change.PolicyTable)
	cmd.Flags().StringVar(&version, "version", "", "a published version (gpuaas agent list)")
	return cmd
}

// newNodeUpdate is the same command for one node, in the group of node commands.
func newNodeUpdate(a *output.Console) *cobra.Command {
	cmd := newUpdate(a)
	cmd.Use, cmd.Short, cmd.Args = "update NODE", "Set the agent version of a node", cobra.ExactArgs(1)
	cmd.Example = "  gpuaas node update gpu-node-01 --version v1.4.0"
	return cmd
}

func trimDays(text string) string { return strings.TrimSuffix(text, "d") }
