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
// create, change and delete objects of the API.

type (
	// Pager requests one page of a list.
	Pager func(ctx context.Context, size *int, cursor *string) (*http.Response, error)
	// Sending sends a change. The editor adds the idempotency key, so that all retries count as one
	// request.
	Sending func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error)
)

// Change sends what a person wants, as often as needed and with one effect.
func Change[T any](ctx context.Context, c *Client, send Sending) (Response[T], error) {
	once := IdempotencyKey()
	return Send[T](ctx, c, func(ctx context.Context) (*http.Response, error) { return send(ctx, once) })
}

// IfMatch sends the version that the user has read, so that another user's later change is not
// overwritten.
func IfMatch(version int64) oapi.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("If-Match", strconv.Quote(strconv.FormatInt(version, 10)))
		return nil
	}
}

// IfAbsent lets the server reject the change if another user has set the value meanwhile.
func IfAbsent(_ context.Context, r *http.Request) error {
	r.Header.Set("If-None-Match", "*")
	return nil
}

// ListCommand completes a command that shows a list. of finds out which list.
func ListCommand[T any](a *output.Console, cmd *cobra.Command, of func(ctx context.Context, c *Client, args []string) (Pager, error), show func(a *output.Console, all ...T) output.Table) *cobra.Command {
	limit, watching := PageSize, false
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := Connect(a)
		if err != nil {
			return err
		}
		next, err := of(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		if watching {
			return watch(cmd.Context(), a, c, limit, next, show)
		}
		return ShowList(cmd.Context(), a, c, limit, next, show)
	}
	cmd.Flags().BoolVar(&watching, "watch", false, "list again every 2 seconds, and print what has changed, until interrupted")
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

// ChangeCommand completes a command that creates or changes one resource and prints it. of reads
// the resource and returns the request.
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

// Effect is a consequence of a command: a deleted resource or moved money.
type Effect struct {
	Name string // to be typed
	What string // what will be so then
	Send Sending
}

// DeleteCommand completes a command that deletes or releases something.
func DeleteCommand(a *output.Console, cmd *cobra.Command, of func(ctx context.Context, c *Client, args []string) (Effect, error)) *cobra.Command {
	return ConfirmedCommand(a, cmd, of, func(e Effect, _ Response[struct{}]) error {
		a.Notify("%s done: %s", output.SymbolGood, e.What)
		return nil
	})
}

// ConfirmedCommand completes a command that cannot be reverted: it reads the resource, prints the
// consequence, and requests its name.
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
