package client

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// What the commands about people, projects and keys have in common: they list,
// make, change and take away things of the API.

type (
	// Pager asks for one page of a list.
	Pager func(ctx context.Context, size *int, cursor *string) (*http.Response, error)
	// Sending sends a change; the editor says that all repetitions of it are one.
	Sending func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error)
)

// Change sends what a person wants, as often as needed and with one effect.
func Change[T any](ctx context.Context, c *Client, send Sending) (Response[T], error) {
	once := IdempotencyKey()
	return Send[T](ctx, c, func(ctx context.Context) (*http.Response, error) { return send(ctx, once) })
}

// IfMatch is the version that a person has looked at, so that a change of somebody
// else's is not overwritten unread.
func IfMatch(version int64) oapi.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("If-Match", strconv.Quote(strconv.FormatInt(version, 10)))
		return nil
	}
}

// ListCommand completes a command that shows a list. of finds out which list.
func ListCommand[T any](a *output.Console, cmd *cobra.Command, of func(ctx context.Context, c *Client, args []string) (Pager, error), show func(a *output.Console, all ...T) output.Table) *cobra.Command {
	limit := PageSize
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := Connect(a)
		if err != nil {
			return err
		}
		next, err := of(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		return ShowList(cmd.Context(), a, c, limit, next, show)
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	return cmd
}

// ShowList reads a list and prints it.
func ShowList[T any](ctx context.Context, a *output.Console, c *Client, limit int, next Pager, show func(a *output.Console, all ...T) output.Table) error {
	all, err := ReadAll[T](ctx, c, limit, next)
	if err != nil {
		return err
	}
	a.NotifyMore(limit, all.More)
	return a.Show(all.Raw, show(a, all.Items...))
}

// ChangeCommand completes a command that makes or changes one thing and shows it. of
// looks at what is there and says what to send.
func ChangeCommand[T any](a *output.Console, cmd *cobra.Command, of func(ctx context.Context, c *Client, args []string) (Sending, error), show func(a *output.Console, all ...T) output.Table) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := Connect(a)
		if err != nil {
			return err
		}
		send, err := of(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		made, err := Change[T](cmd.Context(), c, send)
		if err != nil {
			return err
		}
		return a.Show(made.Raw, show(a, made.Value))
	}
	return cmd
}

// Effect is something that a command takes away, or money that it moves.
type Effect struct {
	Name string // to be typed
	What string // what will be so then
	Send Sending
}

// DeleteCommand completes a command that takes something away.
func DeleteCommand(a *output.Console, cmd *cobra.Command, of func(ctx context.Context, c *Client, args []string) (Effect, error)) *cobra.Command {
	return ConfirmedCommand(a, cmd, of, func(e Effect, _ Response[struct{}]) error {
		a.Notify("%s done: %s", output.SymbolGood, e.What)
		return nil
	})
}

// ConfirmedCommand completes a command that cannot be taken back: it looks what it is about,
// says what will be so then, and asks for the name.
func ConfirmedCommand[T any](a *output.Console, cmd *cobra.Command, of func(ctx context.Context, c *Client, args []string) (Effect, error), then func(Effect, Response[T]) error) *cobra.Command {
	var yes, dry bool
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.RequireConfirmation(yes || dry, strings.TrimPrefix(cmd.CommandPath(), "gpuaas ")); err != nil {
			return err
		}
		c, err := Connect(a)
		if err != nil {
			return err
		}
		e, err := of(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		switch {
		case dry:
			a.Notify("Nothing was changed. Without --dry-run: %s", e.What)
			return nil
		case !yes:
			if err := a.ConfirmName(cmd.Context(), e.Name, e.What, "nothing was changed"); err != nil {
				return err
			}
		}
		did, err := Change[T](cmd.Context(), c, e.Send)
		if err != nil {
			return err
		}
		return then(e, did)
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not prompt for the name")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the change without making it")
	return cmd
}

// Pick finds what a person names among all that there are.
func Pick[T any](c *Client, all []T, kind, ref, try string, names func(T) []string) (T, error) {
	for _, one := range all {
		for _, name := range names(one) {
			if strings.EqualFold(name, ref) {
				return one, nil
			}
		}
	}
	var none T
	return none, c.Unknown(kind, ref, try)
}

func (c *Client) Unknown(kind, ref, try string) error {
	return &output.CommandError{
		Message: fmt.Sprintf("no %s has the name %q", kind, ref), Code: string(errs.NotFound), Try: try, Correlation: c.Correlation, Exit: output.ExitNotFound,
	}
}
