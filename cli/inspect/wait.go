package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/alloc"
	"github.com/gpuaas/gpuaas/cli/change"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// sight is the last read state of a resource with conditions.
type sight struct {
	conditions []oapi.Condition
	raw        json.RawMessage
	table      output.Table
	// since is the time of the source's last poll at the beginning.
	since time.Time
}

type readCondition func(ctx context.Context) (sight, error)

const waitText = `Polls the object until the condition has the value, and prints it. If the object is Stalled, the
command ends with 1, because longer waiting has no effect. The end of a wait changes nothing.`

// defaultWait exceeds the time in which a node receives a task, executes it and reports.
const defaultWait = 10 * time.Minute

func NewWait(a *output.Console) *cobra.Command {
	wanted, timeout := "condition=Ready", defaultWait
	cmd := &cobra.Command{
		Use: "wait KIND/NAME|source/NAME", Short: "Wait for a condition", Long: waitText, Args: cobra.ExactArgs(1), ValidArgsFunction: client.CompleteResources(a, client.WordSource),
		Example: "  gpuaas wait node/gpu-07 --for condition=Ready\n  gpuaas wait source/fleet --for condition=Suspended=False --timeout 2h",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, status, err := conditionWanted(wanted)
			if err != nil {
				return err
			}
			t, err := client.ParseResourceRef(args[0])
			if err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			look, err := conditionReader(cmd.Context(), a, c, t)
			if err != nil {
				return err
			}
			return awaitCondition(cmd.Context(), a, c, t, timeout, look, func(s sight) bool {
				got, ok := output.Condition(s.conditions, name)
				// A condition that exists only while it is true is false if it is missing.
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
		return "", "", output.UsageError("--for %q is not understood: condition=NAME, or condition=NAME=False", text)
	}
	return name, status, nil
}

// conditionReader returns the function that reads the conditions of KIND/NAME.
func conditionReader(ctx context.Context, a *output.Console, c *client.Client, t client.ResourceRef) (readCondition, error) {
	switch t.KindName {
	case client.WordSource:
		return func(ctx context.Context) (sight, error) {
			got, err := c.Source(ctx, t.Name)
			return sight{got.Value.Conditions, got.Raw, change.SourceTable(a, got.Value), output.ValueOrZero(got.Value.CheckedAt)}, err
		}, nil
	case string(oapi.KindAllocation):
		found, err := c.Find(ctx, t.Name)
		return func(ctx context.Context) (sight, error) {
			got, err := c.Allocation(ctx, found.Value.Id)
			return sight{conditions: got.Value.Conditions, raw: got.Raw, table: alloc.AllocationTable(a.Clock.Now(), got.Value)}, err
		}, err
	}
	if _, err := client.KindNamed(t.KindName); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (sight, error) {
		got, err := c.Desired(ctx, t)
		s := sight{raw: got.Raw, table: client.ObjectTable(a, got.Value)}
		// A condition of an older generation does not describe this one.
		if status := got.Value.Status; status != nil && status.ObservedGeneration >= got.Value.Metadata.Generation {
			s.conditions = output.ConditionsOf(*status)
		}
		return s, err
	}, nil
}

// awaitCondition polls until the condition has the status. It only reads.
func awaitCondition(ctx context.Context, a *output.Console, c *client.Client, t client.ResourceRef, timeout time.Duration, look readCondition, reached func(sight) bool) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	w := alloc.Watch{App: a, Began: a.Clock.Now(), Printed: map[string]string{}}
	for {
		now, err := look(within)
		switch {
		case ctx.Err() != nil:
			return &output.CommandError{
				Message: t.String() + " continues; only the waiting was stopped", Code: output.CodeInterrupted, Try: "gpuaas describe " + t.String(), Correlation: c.Correlation, Exit: output.ExitInterrupted,
			}
		case within.Err() != nil:
			return &output.CommandError{
				Message: fmt.Sprintf("%s has not reached the condition after %s; it continues", t, timeout), Code: output.CodeTimeout, Try: "gpuaas describe " + t.String(), Correlation: c.Correlation, Exit: output.ExitTimeout,
			}
		case client.CodeOf(err) == errs.Unavailable: // the server restarts, perhaps; the deadline bounds the hope
		case err != nil:
			return err
		}
		w.Conditions(now.conditions)
		if err == nil && reached(now) {
			return a.Show(now.raw, now.table)
		}
		if why, ok := output.Condition(now.conditions, "Stalled"); ok && why.Status == oapi.ConditionStatusTrue {
			return &output.CommandError{
				Message: fmt.Sprintf("%s is stalled: %s", t, why.Message), Code: output.CodeStalled, Try: "gpuaas describe " + t.String(), Correlation: c.Correlation, Exit: output.ExitFailure,
			}
		}
		// If the time is over, the poll above returns the reason.
		_ = client.Sleep(within, client.PollEvery)
	}
}

const reconcileText = `For an object, the control loop executes the same generation again. For a source, the server syncs
it now instead of at the next poll.`

func NewReconcile(a *output.Console) *cobra.Command {
	var reason string
	var wait bool
	timeout := defaultWait
	cmd := &cobra.Command{
		Use: "reconcile KIND/NAME|source/NAME", Short: "Reconcile an object or sync a source now", Long: reconcileText,
		Args: cobra.ExactArgs(1), ValidArgsFunction: client.CompleteResources(a, client.WordSource),
		Example: "  gpuaas reconcile source/fleet --wait\n  gpuaas reconcile node/gpu-07 --reason \"card was changed\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			t, err := client.ParseResourceRef(args[0])
			if err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			if t.KindName == client.WordSource {
				return syncSource(ctx, a, c, t, wait, timeout)
			}
			if t, err = c.Object(ctx, args[0]); err != nil {
				return err
			}
			got, err := client.Change[oapi.DesiredObject](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.ReconcileDesired(ctx, t.Kind(), t.Name, &oapi.ReconcileDesiredParams{Scope: output.PointerOrNil(t.Scope)}, oapi.ReconcileRequest{Reason: reason}, once)
			})
			switch {
			case err != nil:
				return err
			case !wait:
				return a.Show(got.Raw, client.ObjectTable(a, got.Value))
			}
			look, err := conditionReader(ctx, a, c, t)
			if err != nil {
				return err
			}
			return awaitCondition(ctx, a, c, t, timeout, look, func(s sight) bool {
				return output.IsTrue(s.conditions, "Ready") && !output.IsTrue(s.conditions, "Reconciling")
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "requested by an operator", "why, for the record")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the object is Ready, or until the source was fetched")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "with --wait: give the waiting up after this")
	return cmd
}

func syncSource(ctx context.Context, a *output.Console, c *client.Client, t client.ResourceRef, wait bool, timeout time.Duration) error {
	before, err := c.Source(ctx, t.Name)
	if err != nil {
		return err
	}
	got, err := client.Change[oapi.GitSource](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.SyncGitSource(ctx, t.Name, nil, once)
	})
	switch {
	case err != nil:
		return err
	case !wait:
		return a.Show(got.Raw, change.SourceTable(a, got.Value))
	}
	look, err := conditionReader(ctx, a, c, t)
	if err != nil {
		return err
	}
	seen := output.ValueOrZero(before.Value.CheckedAt)
	var last sight
	err = awaitCondition(ctx, a, c, t, timeout, look, func(s sight) bool { last = s; return s.since.After(seen) })
	if err != nil {
		return err
	}
	return unready(t, last, c.Correlation)
}

// unready explains that the branch is not applied.
func unready(t client.ResourceRef, s sight, correlation string) error {
	why, ok := output.Condition(s.conditions, "Ready")
	if !ok || why.Status != oapi.ConditionStatusFalse {
		return nil
	}
	f := &output.CommandError{
		Message: fmt.Sprintf("%s is not applied: %s", t, why.Message), Code: output.CodeFindings, Try: "gpuaas describe " + t.String(), Correlation: correlation, Exit: output.ExitFailure,
	}
	if why.Reason == "ApprovalRequired" {
		f.Code, f.Exit = string(errs.ApprovalRequired), output.ExitOf(errs.ApprovalRequired)
	}
	return f
}
