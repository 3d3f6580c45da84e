package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// sight is something with conditions, as it was last seen.
type sight struct {
	conditions []oapi.Condition
	raw        json.RawMessage
	table      table
	// since is when a source was last looked at.
	since time.Time
}

type looking func(ctx context.Context) (sight, error)

const waitText = `Looks again and again until the condition is as asked for, and prints it. Stalled, it
ends with 1: waiting longer is of no use. A wait that is over or interrupted changes nothing.`

// Longer than a node takes to be told, to act and to report.
const defaultWait = 10 * time.Minute

func newWait(a *app) *cobra.Command {
	wanted, timeout := "condition=Ready", defaultWait
	cmd := &cobra.Command{
		Use: "wait KIND/NAME|source/NAME", Short: "Wait for a condition", Long: waitText, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeThings(wordSource),
		Example: "  gpuaas wait node/gpu-07 --for condition=Ready\n  gpuaas wait source/fleet --for condition=Suspended=False --timeout 2h",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, status, err := conditionWanted(wanted)
			if err != nil {
				return err
			}
			t, err := parseThing(args[0])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			look, err := a.looking(cmd.Context(), c, t)
			if err != nil {
				return err
			}
			return a.awaitCondition(cmd.Context(), c, t, timeout, look, func(s sight) bool {
				got, ok := condition(s.conditions, name)
				// What only stands while it is true is false when it is not there.
				return ok && got.Status == status || !ok && status == oapi.ConditionStatusFalse
			})
		},
	}
	cmd.Flags().StringVar(&wanted, "for", wanted, "condition=NAME, or condition=NAME=False")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "give the waiting up after this")
	return cmd
}

func conditionWanted(text string) (name string, status oapi.ConditionStatus, err error) {
	name, found := strings.CutPrefix(text, "condition=")
	name, value, valued := strings.Cut(name, "=")
	if !valued {
		value = string(oapi.ConditionStatusTrue)
	}
	for _, s := range []oapi.ConditionStatus{oapi.ConditionStatusTrue, oapi.ConditionStatusFalse, oapi.ConditionStatusUnknown} {
		if strings.EqualFold(value, string(s)) {
			status = s
		}
	}
	if !found || name == "" || status == "" {
		return "", "", usage("--for %q is not understood: condition=NAME, or condition=NAME=False", text)
	}
	return name, status, nil
}

// looking finds how to look at what KIND/NAME names.
func (a *app) looking(ctx context.Context, c *client, t thing) (looking, error) {
	switch t.word {
	case wordSource:
		return func(ctx context.Context) (sight, error) {
			got, err := c.source(ctx, t.name)
			return sight{got.Value.Conditions, got.Raw, sourceTable(a, got.Value), deref(got.Value.CheckedAt)}, err
		}, nil
	case string(oapi.KindAllocation):
		found, err := c.find(ctx, t.name)
		return func(ctx context.Context) (sight, error) {
			got, err := c.allocation(ctx, found.Value.Id)
			return sight{conditions: got.Value.Conditions, raw: got.Raw, table: allocationTable(a.Clock.Now(), got.Value)}, err
		}, err
	}
	if _, err := kindNamed(t.word); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (sight, error) {
		got, err := c.desired(ctx, t)
		s := sight{raw: got.Raw, table: objectTable(a, got.Value)}
		// A condition of an older generation says nothing about this one.
		if status := got.Value.Status; status != nil && status.ObservedGeneration >= got.Value.Metadata.Generation {
			s.conditions = status.Conditions
		}
		return s, err
	}, nil
}

// awaitCondition looks until it is as it should be. It only watches.
func (a *app) awaitCondition(ctx context.Context, c *client, t thing, timeout time.Duration, look looking, reached func(sight) bool) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	w := watch{app: a, began: a.Clock.Now(), printed: map[string]string{}}
	for {
		now, err := look(within)
		switch {
		case ctx.Err() != nil:
			return &failure{
				Message: t.String() + " goes on; only the waiting was stopped", Code: codeInterrupted, Try: "gpuaas describe " + t.String(), Correlation: c.correlation, Exit: exitInterrupted,
			}
		case within.Err() != nil:
			return &failure{
				Message: fmt.Sprintf("%s is not as asked for after %s; it goes on", t, timeout), Code: codeTimeout, Try: "gpuaas describe " + t.String(), Correlation: c.correlation, Exit: exitTimeout,
			}
		case codeOf(err) == errs.Unavailable: // the server restarts, perhaps; the deadline bounds the hope
		case err != nil:
			return err
		}
		w.conditions(now.conditions)
		if err == nil && reached(now) {
			return a.show(now.raw, now.table)
		}
		if why, ok := condition(now.conditions, "Stalled"); ok && why.Status == oapi.ConditionStatusTrue {
			return &failure{
				Message: fmt.Sprintf("%s is stalled: %s", t, why.Message), Code: codeStalled, Try: "gpuaas describe " + t.String(), Correlation: c.correlation, Exit: exitFailure,
			}
		}
		// Cut short, the look above says why.
		_ = sleep(within, lookEvery)
	}
}

const reconcileText = `An object: the same generation is carried out again, as though nothing had been done
for it. A source: the server looks at it now, and not at its next poll.`

func newReconcile(a *app) *cobra.Command {
	var reason string
	var wait bool
	timeout := defaultWait
	cmd := &cobra.Command{
		Use: "reconcile KIND/NAME|source/NAME", Short: "Work an object anew, or look at a source now", Long: reconcileText,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeThings(wordSource),
		Example: "  gpuaas reconcile source/fleet --wait\n  gpuaas reconcile node/gpu-07 --reason \"card was changed\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			t, err := parseThing(args[0])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if t.word == wordSource {
				return a.syncSource(ctx, c, t, wait, timeout)
			}
			if t, err = c.object(ctx, args[0]); err != nil {
				return err
			}
			got, err := change[oapi.DesiredObject](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.ReconcileDesired(ctx, t.kind(), t.name, &oapi.ReconcileDesiredParams{Scope: set(t.scope)}, oapi.ReconcileRequest{Reason: reason}, once)
			})
			switch {
			case err != nil:
				return err
			case !wait:
				return a.show(got.Raw, objectTable(a, got.Value))
			}
			look, err := a.looking(ctx, c, t)
			if err != nil {
				return err
			}
			return a.awaitCondition(ctx, c, t, timeout, look, func(s sight) bool { return holds(s.conditions, "Ready") && !holds(s.conditions, "Reconciling") })
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "asked for by hand", "why, for the record")
	cmd.Flags().BoolVar(&wait, "wait", false, "until it is Ready; a source: until it was looked at")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "with --wait: give the waiting up after this")
	return cmd
}

func (a *app) syncSource(ctx context.Context, c *client, t thing, wait bool, timeout time.Duration) error {
	before, err := c.source(ctx, t.name)
	if err != nil {
		return err
	}
	got, err := change[oapi.GitSource](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.SyncGitSource(ctx, t.name, nil, once)
	})
	switch {
	case err != nil:
		return err
	case !wait:
		return a.show(got.Raw, sourceTable(a, got.Value))
	}
	look, err := a.looking(ctx, c, t)
	if err != nil {
		return err
	}
	seen := deref(before.Value.CheckedAt)
	var last sight
	err = a.awaitCondition(ctx, c, t, timeout, look, func(s sight) bool { last = s; return s.since.After(seen) })
	if err != nil {
		return err
	}
	return unready(t, last, c.correlation)
}

// unready says that the branch is not what is applied, and why.
func unready(t thing, s sight, correlation string) error {
	why, ok := condition(s.conditions, "Ready")
	if !ok || why.Status != oapi.ConditionStatusFalse {
		return nil
	}
	f := &failure{
		Message: fmt.Sprintf("%s is not applied: %s", t, why.Message), Code: codeFindings, Try: "gpuaas describe " + t.String(), Correlation: correlation, Exit: exitFailure,
	}
	if why.Reason == "ApprovalRequired" {
		f.Code, f.Exit = string(errs.ApprovalRequired), exitOf(errs.ApprovalRequired)
	}
	return f
}
