package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

const traceText = `From the request to the last observation, oldest first: who asked, what was declared,
planned, enqueued, ordered of a node, and seen.`

func newTrace(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "trace KIND/NAME", Short: "How an object came to be as it is", Long: traceText, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeThings(),
		Example: "  gpuaas trace node/gpu-07\n  gpuaas trace alloc/first",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			t, err := c.object(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			got, err := ask[oapi.Trace](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) {
				return c.TraceDesired(ctx, t.kind(), t.name, &oapi.TraceDesiredParams{Scope: set(t.scope)})
			})
			if err != nil {
				return err
			}
			return a.show(got.Raw, traceTable(strings.ToLower(t.String()), got.Value.Steps))
		},
	}
}

func traceTable(name string, all []oapi.TraceStep) table {
	t := table{head: []string{"AT", "STAGE", "STATE", "WHAT", "REFERENCE"}}
	for _, s := range all {
		t.add(name, stamp(s.At), string(s.Stage), cell(s.State), cell(s.Text), cell(deref(s.Reference)))
	}
	return t
}
