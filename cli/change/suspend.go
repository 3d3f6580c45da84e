package change

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// changesOne completes a command that changes an object or a source, and shows it
// as it is then.
func changesOne(a *output.Console, cmd *cobra.Command, object func(c *client.Client, t client.ResourceRef) (client.Sending, error), source func(c *client.Client, name string) (client.Sending, error)) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), client.CompleteResources(a, client.WordSource)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t, err := client.ParseResourceRef(args[0])
		if err != nil {
			return err
		}
		c, err := client.Connect(a)
		if err != nil {
			return err
		}
		if t.KindName == client.WordSource {
			return changed(cmd.Context(), a, c, t.Name, source, SourceTable)
		}
		if t, err = c.Object(cmd.Context(), args[0]); err != nil {
			return err
		}
		return changed(cmd.Context(), a, c, t, object, client.ObjectTable)
	}
	return cmd
}

func changed[N, T any](ctx context.Context, a *output.Console, c *client.Client, what N, of func(*client.Client, N) (client.Sending, error), show func(a *output.Console, all ...T) output.Table) error {
	send, err := of(c, what)
	if err != nil {
		return err
	}
	made, err := client.Change[T](ctx, c, send)
	if err != nil {
		return err
	}
	return a.Show(made.Raw, show(a, made.Value))
}

const suspendText = `The control loop starts no new work for a suspended object until the given time, or until
an operator resumes it. A requested release and billing continue. For a suspended source
the platform fetches and validates commits but applies none.`

func NewSuspend(a *output.Console) *cobra.Command {
	var reason, span string
	cmd := &cobra.Command{
		Use: "suspend KIND/NAME|source/NAME", Short: "Suspend an object or a source", Long: suspendText,
		Example: "  gpuaas suspend node/gpu-07 --reason \"the vendor is at it\" --for 2h\n  gpuaas suspend source/fleet --reason \"change freeze\"",
	}
	body := func() (oapi.Suspend, error) {
		s := oapi.Suspend{Reason: reason}
		if span == "" {
			return s, nil
		}
		d, err := output.ParseSpan(span)
		if err != nil {
			return s, output.UsageError("--for: %v", err)
		}
		end := a.Clock.Now().Add(d).UTC().Truncate(time.Second)
		s.Until = &end
		return s, nil
	}
	changesOne(a, cmd,
		func(c *client.Client, t client.ResourceRef) (client.Sending, error) {
			s, err := body()
			return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.SuspendDesired(ctx, t.Kind(), t.Name, &oapi.SuspendDesiredParams{Scope: output.PointerOrNil(t.Scope)}, s, once)
			}, err
		},
		func(c *client.Client, name string) (client.Sending, error) {
			s, err := body()
			return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.SuspendGitSource(ctx, name, nil, s, once)
			}, err
		})
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required")
	cmd.Flags().StringVar(&span, "for", "", "for how long, like 2h or 7d; until it is resumed when left out")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

func NewResume(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "resume KIND/NAME|source/NAME", Short: "Resume an object or a source", Example: "  gpuaas resume node/gpu-07"}
	return changesOne(a, cmd,
		func(c *client.Client, t client.ResourceRef) (client.Sending, error) {
			return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.ResumeDesired(ctx, t.Kind(), t.Name, &oapi.ResumeDesiredParams{Scope: output.PointerOrNil(t.Scope)}, once)
			}, nil
		},
		func(c *client.Client, name string) (client.Sending, error) {
			return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.ResumeGitSource(ctx, name, nil, once)
			}, nil
		})
}
