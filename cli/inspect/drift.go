package inspect

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/change"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewDrift(a *output.Console) *cobra.Command {
	cmd := newDriftList(a, "drift")
	cmd.Example = "  gpuaas drift --kind node\n  gpuaas drift ignore 01990f41-… --reason \"the vendor replaces the card\" --until 7d"
	cmd.AddCommand(newDriftIgnore(a))
	return cmd
}

const driftText = `Lists each field whose observed value differs from desired state, with its start, owner,
cause, action, deadline and cost per hour. Open drift is listed first.`

func newDriftList(a *output.Console, use string) *cobra.Command {
	var kind, status string
	cmd := &cobra.Command{Use: use, Short: "List drift", Long: driftText, Args: cobra.NoArgs}
	client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		which := oapi.ListDriftParams{Status: output.PointerOrNil(oapi.ListDriftParamsStatus(status))}
		if kind != "" {
			k, err := client.KindNamed(kind)
			if err != nil {
				return nil, err
			}
			which.Kind = &k
		}
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			which.Limit, which.Cursor = size, cursor
			return c.ListDrift(ctx, &which)
		}, nil
	}, DriftTable)
	cmd.Flags().StringVar(&kind, "kind", "", "only of this kind")
	cmd.Flags().StringVar(&status, "status", "", "only in this state: open, healed, ignored")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(client.KindWords(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func DriftTable(a *output.Console, all ...oapi.Drift) output.Table {
	t := output.Table{
		Head: []string{"OBJECT", "FIELD", "DESIRED", "OBSERVED", "STATUS", "POLICY", "OWNER", "SINCE", "DEADLINE", "COST/H", "CAUSE"},
		Wide: []string{"SEEN", "IGNORED BY", "UNTIL", "ID"},
	}
	now := a.Clock.Now()
	for _, d := range all {
		deadline, cost, by, end := "-", "-", "-", "-"
		if d.Status == oapi.DriftStatusOpen {
			deadline = due(now, d.DeadlineAt)
		}
		if d.CostPerHour != nil {
			cost = output.Amount(*d.CostPerHour)
		}
		if d.Ignored != nil {
			by, end = output.CellText(d.Ignored.By+": "+d.Ignored.Reason), output.FormatTime(d.Ignored.Until)
		}
		t.Add("drift/"+d.Id.String(), string(d.Kind)+"/"+d.Name, output.CellText(d.Field), output.CellText(d.Desired), output.CellText(d.Observed), driftState(d.Status), string(d.Policy), output.CellText(d.Owner),
			output.Age(now, d.OpenedAt), deadline, cost, output.CellText(d.Cause), output.Age(now, d.ObservedAt), by, end, d.Id.String())
	}
	return t
}

func driftState(s oapi.DriftStatus) string {
	symbol, ok := map[oapi.DriftStatus]string{oapi.DriftStatusOpen: output.SymbolBad, oapi.DriftStatusHealed: output.SymbolGood, oapi.DriftStatusIgnored: output.SymbolWarn}[s]
	if !ok {
		return string(s)
	}
	return symbol + " " + string(s)
}

// due returns the time until a deadline.
func due(now time.Time, at *time.Time) string {
	switch {
	case at == nil:
		return "-"
	case at.Before(now):
		return "over since " + output.Age(now, *at)
	default:
		return "in " + output.FormatSeconds(int64(at.Sub(now)/time.Second))
	}
}

func noSingleDrift() error {
	f := output.UsageError("differences are only listed")
	f.Try = "gpuaas drift -o wide"
	return f
}

func newDriftIgnore(a *output.Console) *cobra.Command {
	var reason, end string
	cmd := &cobra.Command{
		Use: "ignore ID", Short: "Ignore drift until a given time", Args: cobra.ExactArgs(1),
	}
	client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		id, ref, ok := output.IdOf(args[0])
		if !ok {
			f := output.UsageError("%q is no id of a difference", ref)
			f.Try = "gpuaas drift -o wide"
			return nil, f
		}
		at, err := later(a, "--until", end)
		if err != nil {
			return nil, err
		}
		return ignoring(c, id, oapi.Ignore{Reason: reason, Until: at}), nil
	}, DriftTable)
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required")
	cmd.Flags().StringVar(&end, "until", "", "RFC 3339, a day, or a length of time like 7d; at most 90 days; required")
	_ = cmd.MarkFlagRequired("reason")
	_ = cmd.MarkFlagRequired("until")
	return cmd
}

func ignoring(c *client.Client, id uuid.UUID, what oapi.Ignore) client.Sending {
	return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.IgnoreDrift(ctx, id, nil, what, once)
	}
}

// later parses a time in the future: RFC 3339, a date, or a duration from now.
func later(a *output.Console, flag, text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	span, err := output.ParseSpan(text)
	if err != nil {
		return time.Time{}, output.UsageError("%s: %q is neither a time, a day, nor a length of time like 2h or 7d", flag, text)
	}
	return a.Clock.Now().Add(span).UTC(), nil
}

func pairs(all map[string]string) string {
	var lines []string
	for _, key := range output.SortedKeys(all) {
		lines = append(lines, fmt.Sprintf("%s=%s", key, all[key]))
	}
	return output.CellText(change.SomeOf(lines))
}
