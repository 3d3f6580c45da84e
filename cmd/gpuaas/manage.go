package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// What the commands about people, projects and keys have in common: they list,
// make, change and take away things of the API.

type (
	// pager asks for one page of a list.
	pager func(ctx context.Context, size *int, cursor *string) (*http.Response, error)
	// sending sends a change; the editor says that all repetitions of it are one.
	sending func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error)
)

// change sends what a person wants, as often as needed and with one effect.
func change[T any](ctx context.Context, c *client, send sending) (answer[T], error) {
	once := intent()
	return ask[T](ctx, c, func(ctx context.Context) (*http.Response, error) { return send(ctx, once) })
}

// seen is the version that a person has looked at, so that a change of somebody
// else's is not overwritten unread.
func seen(version int64) oapi.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("If-Match", strconv.Quote(strconv.FormatInt(version, 10)))
		return nil
	}
}

// lists completes a command that shows a list. of finds out which list.
func lists[T any](a *app, cmd *cobra.Command, of func(ctx context.Context, c *client, args []string) (pager, error), show func(a *app, all ...T) table) *cobra.Command {
	limit := pageSize
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		next, err := of(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		return shown(cmd.Context(), a, c, limit, next, show)
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	return cmd
}

// shown reads a list and prints it.
func shown[T any](ctx context.Context, a *app, c *client, limit int, next pager, show func(a *app, all ...T) table) error {
	all, err := readAll[T](ctx, c, limit, next)
	if err != nil {
		return err
	}
	a.moreThan(limit, all.More)
	return a.show(all.Raw, show(a, all.Items...))
}

// makes completes a command that makes or changes one thing and shows it. of
// looks at what is there and says what to send.
func makes[T any](a *app, cmd *cobra.Command, of func(ctx context.Context, c *client, args []string) (sending, error), show func(a *app, all ...T) table) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		send, err := of(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		made, err := change[T](cmd.Context(), c, send)
		if err != nil {
			return err
		}
		return a.show(made.Raw, show(a, made.Value))
	}
	return cmd
}

// end is something that a command takes away, or money that it moves.
type end struct {
	name string // to be typed
	what string // what will be so then
	send sending
}

// ends completes a command that takes something away.
func ends(a *app, cmd *cobra.Command, of func(ctx context.Context, c *client, args []string) (end, error)) *cobra.Command {
	return asks(a, cmd, of, func(e end, _ answer[struct{}]) error {
		a.say("%s done: %s", symbolGood, e.what)
		return nil
	})
}

// asks completes a command that cannot be taken back: it looks what it is about,
// says what will be so then, and asks for the name.
func asks[T any](a *app, cmd *cobra.Command, of func(ctx context.Context, c *client, args []string) (end, error), then func(end, answer[T]) error) *cobra.Command {
	var yes, dry bool
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.mustAsk(yes || dry, strings.TrimPrefix(cmd.CommandPath(), "gpuaas ")); err != nil {
			return err
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		e, err := of(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		switch {
		case dry:
			a.say("Nothing was changed. Without --dry-run: %s", e.what)
			return nil
		case !yes:
			if err := a.confirmName(cmd.Context(), e.name, e.what, "nothing was changed"); err != nil {
				return err
			}
		}
		did, err := change[T](cmd.Context(), c, e.send)
		if err != nil {
			return err
		}
		return then(e, did)
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for the name")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "look, say what would be done, and stop there")
	return cmd
}

// pick finds what a person names among all that there are.
func pick[T any](c *client, all []T, kind, ref, try string, names func(T) []string) (T, error) {
	for _, one := range all {
		for _, name := range names(one) {
			if strings.EqualFold(name, ref) {
				return one, nil
			}
		}
	}
	var none T
	return none, c.unknown(kind, ref, try)
}

func (c *client) unknown(kind, ref, try string) error {
	return &failure{
		Message: fmt.Sprintf("there is no %s %q", kind, ref), Code: string(errs.NotFound), Try: try, Correlation: c.correlation, Exit: exitNotFound,
	}
}

// idOf reads an id, also with the kind before it as -o name prints it.
func idOf(ref string) (uuid.UUID, string, bool) {
	if _, after, found := strings.Cut(ref, "/"); found {
		ref = after
	}
	id, err := uuid.Parse(ref)
	return id, ref, err == nil
}

// showSecret prints a secret that exists nowhere else: alone on stdout, so that a
// script can take it, with all the rest beside it on stderr.
func (a *app) showSecret(raw []byte, secret, of string) error {
	a.say("%s %s: the secret is shown this once. Keep it where nobody reads it.", symbolWarn, of)
	if a.data() {
		return a.show(raw, table{})
	}
	if _, err := fmt.Fprintln(a.Out, secret); err != nil {
		return fmt.Errorf("writing result: %w", err)
	}
	return nil
}

// ttl reads how long something is good for; left out, without end.
func ttl(text string) (*int64, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // left out is a value: without end
	}
	d, err := parseSpan(text)
	if err != nil {
		return nil, usage("--ttl: %v", err)
	}
	seconds := int64(d / time.Second)
	return &seconds, nil
}

func scopes(names []string) []oapi.Scope {
	all := make([]oapi.Scope, len(names))
	for i, n := range names {
		all[i] = oapi.Scope(n)
	}
	return all
}

const scopeUsage = "what it may be used for, like allocations:read; may be repeated"

func scopeList(all []oapi.Scope, none string) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	return cmp.Or(strings.Join(names, ","), none)
}

// given is a flag's value if it was given at all, also an empty one.
func given[T any](cmd *cobra.Command, flag string, value T) *T {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	return &value
}

// cell is a text of somebody else's, fit for a table and a terminal.
func cell(text string) string {
	return orDash(oneLine(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)))
}

// ago is how long something was not used.
func ago(now time.Time, at *time.Time) string {
	if at == nil {
		return "never"
	}
	return age(now, *at)
}

func lastUse(now time.Time, at *time.Time) string {
	if at == nil {
		return "never used"
	}
	return "last used " + age(now, *at) + " ago"
}

func until(at *time.Time) string { return stamp(deref(at)) }
