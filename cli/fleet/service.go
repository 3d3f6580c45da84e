package fleet

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func newNodeReset(a *output.Console) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "reset-gpu NODE GPU", Short: "Reset a GPU", Args: cobra.ExactArgs(2),
		Long:    "Resets one idle GPU. Quarantine its slot first. \"gpuaas describe node/NODE\" shows the result of the task node.gpu_reset.",
		Example: "  gpuaas node reset-gpu gpu-07 GPU-5f1c2a3b-0000-4000-8000-000000000001 --reason \"XID 95\"",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required")
	_ = cmd.MarkFlagRequired("reason")
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.ResetNodeGpu(ctx, nodeNamed(args[0]), args[1], nil, oapi.Reason{Reason: reason}, once)
		}, nil
	}, heldTable)
}

func newNodeRetirement(a *output.Console) *cobra.Command {
	var reason, at string
	cmd := &cobra.Command{
		Use: "announce-retirement NODE", Short: "Announce a node retirement",
		Long:    "Notifies the tenants on a node that it will leave the fleet. It releases nothing: drain and retire the node later.",
		Example: "  gpuaas node announce-retirement gpu-07 --at 2026-03-01 --reason \"end of life\"",
	}
	cmd.Flags().StringVar(&at, "at", "", "when the node leaves the fleet: RFC 3339 or a day; required")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, which tenants can read; required")
	_ = cmd.MarkFlagRequired("at")
	_ = cmd.MarkFlagRequired("reason")
	return onNode(a, cmd, func(c *client.Client, name string) (client.Sending, error) {
		retires, err := a.ParseTime("--at", at)
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.AnnounceNodeRetirement(ctx, name, nil, oapi.RetirementNotice{Reason: reason, RetiresAt: output.ValueOrZero(retires)}, once)
		}, err
	})
}
