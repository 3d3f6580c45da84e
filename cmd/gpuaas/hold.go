package main

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// changesOne completes a command that changes an object or a source, and shows it
// as it is then.
func changesOne(a *app, cmd *cobra.Command, object func(c *client, t thing) (sending, error), source func(c *client, name string) (sending, error)) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), a.completeThings(wordSource)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t, err := parseThing(args[0])
		if err != nil {
			return err
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		if t.word == wordSource {
			return changed(cmd.Context(), a, c, t.name, source, sourceTable)
		}
		if t, err = c.object(cmd.Context(), args[0]); err != nil {
			return err
		}
		return changed(cmd.Context(), a, c, t, object, objectTable)
	}
	return cmd
}

func changed[N, T any](ctx context.Context, a *app, c *client, what N, of func(*client, N) (sending, error), show func(a *app, all ...T) table) error {
	send, err := of(c, what)
	if err != nil {
		return err
	}
	made, err := change[T](ctx, c, send)
	if err != nil {
		return err
	}
	return a.show(made.Raw, show(a, made.Value))
}

const suspendText = `The loop asks nothing new of a suspended object until the time given, or until it
is resumed; what was asked for is still let go, and money still counts. Of a
suspended source commits are read and judged, and none is applied.`

func newSuspend(a *app) *cobra.Command {
	var reason, span string
	cmd := &cobra.Command{
		Use: "suspend KIND/NAME|source/NAME", Short: "Leave an object or a source alone for a while", Long: suspendText,
		Example: "  gpuaas suspend node/gpu-07 --reason \"the vendor is at it\" --for 2h\n  gpuaas suspend source/fleet --reason \"change freeze\"",
	}
	body := func() (oapi.Suspend, error) {
		s := oapi.Suspend{Reason: reason}
		if span == "" {
			return s, nil
		}
		d, err := parseSpan(span)
		if err != nil {
			return s, usage("--for: %v", err)
		}
		end := a.Clock.Now().Add(d).UTC().Truncate(time.Second)
		s.Until = &end
		return s, nil
	}
	changesOne(a, cmd,
		func(c *client, t thing) (sending, error) {
			s, err := body()
			return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.SuspendDesired(ctx, t.kind(), t.name, &oapi.SuspendDesiredParams{Scope: set(t.scope)}, s, once)
			}, err
		},
		func(c *client, name string) (sending, error) {
			s, err := body()
			return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.SuspendGitSource(ctx, name, nil, s, once)
			}, err
		})
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever finds it; required")
	cmd.Flags().StringVar(&span, "for", "", "for how long, like 2h or 7d; until it is resumed when left out")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

func newResume(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "resume KIND/NAME|source/NAME", Short: "End a suspension now", Example: "  gpuaas resume node/gpu-07"}
	return changesOne(a, cmd,
		func(c *client, t thing) (sending, error) {
			return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.ResumeDesired(ctx, t.kind(), t.name, &oapi.ResumeDesiredParams{Scope: set(t.scope)}, once)
			}, nil
		},
		func(c *client, name string) (sending, error) {
			return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.ResumeGitSource(ctx, name, nil, once)
			}, nil
		})
}
