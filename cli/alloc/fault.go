package alloc

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func newAllocReportFault(a *output.Console) *cobra.Command {
	var message, gpu string
	cmd := &cobra.Command{
		Use: "report-fault NAME", Short: "Report an allocation fault", Args: cobra.ExactArgs(1),
		Long:    "Reports a fault of the node or of a GPU that the platform has not detected. If an operator confirms it, the charges since the report are credited.",
		Example: "  gpuaas alloc report-fault brave-otter --message \"the GPU returns wrong sums\"",
	}
	cmd.Flags().StringVar(&message, "message", "", "what you have observed; required")
	cmd.Flags().StringVar(&gpu, "gpu", "", "UUID of a GPU of the allocation; the node when left out")
	_ = cmd.MarkFlagRequired("message")
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		found, err := c.Find(ctx, args[0])
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.ReportAllocationFault(ctx, found.Value.Id, nil, oapi.FaultRequest{Message: message, Gpu: output.PointerOrNil(gpu)}, c.InProject, once)
		}, err
	}, faultTable)
}

func newAllocFaults(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "faults NAME", Short: "List allocation fault reports", Args: cobra.ExactArgs(1), Example: "  gpuaas alloc faults brave-otter"}
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Pager, error) {
		found, err := c.Find(ctx, args[0])
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListAllocationFaults(ctx, found.Value.Id, &oapi.ListAllocationFaultsParams{Limit: size, Cursor: cursor}, c.InProject)
		}, err
	}, faultTable)
}

// NewAdminFaults returns the commands for operators about fault reports of tenants.
func NewAdminFaults(a *output.Console) *cobra.Command {
	return output.Group("fault", "Manage fault reports", newFaultList(a),
		newFaultDecide(a, "confirm", "Confirm a fault report", true), newFaultDecide(a, "reject", "Reject a fault report", false))
}

func newFaultList(a *output.Console) *cobra.Command {
	var status string
	cmd := &cobra.Command{Use: "list", Short: "List fault reports", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&status, "status", "", "open, confirmed or rejected")
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListFaultReports(ctx, &oapi.ListFaultReportsParams{Limit: size, Cursor: cursor, Status: output.PointerOrNil(oapi.ListFaultReportsParamsStatus(status))})
		}, nil
	}, faultTable)
}

func newFaultDecide(a *output.Console, use, short string, confirmed bool) *cobra.Command {
	var reason string
	cmd := &cobra.Command{Use: use + " ID", Short: short, Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required")
	_ = cmd.MarkFlagRequired("reason")
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		id, err := uuid.Parse(args[0])
		if err != nil {
			return nil, output.UsageError("%q is not the id of a fault report", args[0])
		}
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.DecideFaultReport(ctx, id, nil, oapi.FaultDecision{Confirmed: confirmed, Reason: reason}, once)
		}, nil
	}, faultTable)
}

func faultTable(_ *output.Console, all ...oapi.FaultReport) output.Table {
	t := output.Table{Head: []string{"REPORTED", "STATUS", "NODE", "GPU", "MESSAGE", "ID"}, Wide: []string{"ALLOCATION", "REPORTED BY", "DECIDED BY", "REASON"}}
	for _, f := range all {
		t.Add("fault/"+f.Id.String(), output.FormatTime(f.ReportedAt), string(f.Status), output.OrDash(output.ValueOrZero(f.NodeName)), output.OrDash(output.ValueOrZero(f.Gpu)),
			output.CellText(f.Message), f.Id.String(), f.AllocationId.String(), f.ReportedBy, output.OrDash(output.ValueOrZero(f.DecidedBy)), output.CellText(output.ValueOrZero(f.DecidedReason)))
	}
	return t
}
