package inspect

import (
	"context"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

const traceText = `Prints the history of an object from the request to the last observation, oldest first: request,
desired object, plans, jobs, tasks and reports.`

func NewTrace(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "trace KIND/NAME", Short: "Show the history of a desired object", Long: traceText, Args: cobra.ExactArgs(1), ValidArgsFunction: client.CompleteResources(a),
		Example: "  gpuaas trace node/gpu-07\n  gpuaas trace alloc/first",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			t, err := c.Object(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			got, err := client.Send[oapi.Trace](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) {
				return c.TraceDesired(ctx, t.Kind(), t.Name, &oapi.TraceDesiredParams{Scope: output.PointerOrNil(t.Scope)})
			})
			if err != nil {
				return err
			}
			if err := a.Show(got.Raw, traceTable(strings.ToLower(t.String()), got.Value.Steps)); err != nil {
				return err
			}
			if t.Kind() == "Allocation" {
				a.Notify("Signed records: gpuaas evidence create %s, or list --about %s", t.Name, got.Value.Object.Metadata.Uid)
			}
			return nil
		},
	}
}

func traceTable(name string, all []oapi.TraceStep) output.Table {
	t := output.Table{Head: []string{"AT", "STAGE", "STATE", "WHAT", "REFERENCE"}}
	for _, s := range all {
		t.Add(name, output.FormatTime(s.OccurredAt), string(s.Stage), output.CellText(s.State), output.CellText(s.Message), output.CellText(output.ValueOrZero(s.Reference)))
	}
	return t
}
