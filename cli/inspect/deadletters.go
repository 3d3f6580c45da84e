package inspect

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// letterFilter contains the flags that select dead letters.
type letterFilter struct{ consumer, stream, subject, reason string }

func (f *letterFilter) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.consumer, "consumer", "", "only of this consumer, or of relay")
	cmd.Flags().StringVar(&f.stream, "stream", "", "only of this stream, like BILLING")
	cmd.Flags().StringVar(&f.subject, "subject", "", "only with this subject")
}

func newDeadLetters(a *output.Console) *cobra.Command {
	var f letterFilter
	var resolved bool
	cmd := &cobra.Command{
		Use: "dead-letters [ID]", Short: "List dead letters", Args: cobra.MaximumNArgs(1),
		Long: "Lists the events that a consumer could not process in ten attempts. With an id it shows one; -o yaml includes its event.",
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&resolved, "resolved", false, "also resolved ones")
	client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListDeadLetters(ctx, &oapi.ListDeadLettersParams{
				Limit: size, Cursor: cursor, Consumer: output.PointerOrNil(f.consumer), Stream: output.PointerOrNil(oapi.ListDeadLettersParamsStream(f.stream)),
				Subject: output.PointerOrNil(f.subject), Resolved: output.PointerOrNil(resolved),
			})
		}, nil
	}, letterTable)
	list := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return list(cmd, args)
		}
		return showDeadLetter(cmd.Context(), a, args[0])
	}
	return cmd
}

func showDeadLetter(ctx context.Context, a *output.Console, text string) error {
	all, err := parseIDs([]string{text})
	if err != nil {
		return err
	}
	c, err := client.Connect(a)
	if err != nil {
		return err
	}
	got, err := client.Send[oapi.DeadLetter](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetDeadLetter(ctx, all[0]) })
	if err != nil {
		return err
	}
	return a.Show(got.Raw, letterTable(a, got.Value))
}

func parseIDs(args []string) (all []uuid.UUID, err error) {
	for _, arg := range args {
		id, err := uuid.Parse(arg)
		if err != nil {
			return nil, output.UsageError("%q is not an id", arg)
		}
		all = append(all, id)
	}
	return all, nil
}

func letterTable(_ *output.Console, all ...oapi.DeadLetter) output.Table {
	t := output.Table{Head: []string{"FAILED", "STATUS", "CONSUMER", "SUBJECT", "ERROR", "ID"}, Wide: []string{"ATTEMPTS", "EVENT", "RESOLVED BY", "REASON"}}
	for _, d := range all {
		t.Add("dead-letter/"+d.Id.String(), output.FormatTime(d.UpdatedAt), string(d.Status), d.Consumer, d.Subject, output.CellText(d.Error), d.Id.String(),
			strconv.Itoa(d.Attempts), d.EventId.String(), output.OrDash(output.ValueOrZero(d.ResolvedBy)), output.OrDash(output.ValueOrZero(d.Reason)))
	}
	return t
}

type sendDecision func(context.Context, *client.Client, oapi.DeadLetterDecision, oapi.RequestEditorFn) (*http.Response, error)

func newRetry(a *output.Console) *cobra.Command {
	return newDecision(a, "retry", "Retry dead letters", func(ctx context.Context, c *client.Client, d oapi.DeadLetterDecision, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.RetryDeadLetters(ctx, nil, d, once)
	})
}

func newDiscard(a *output.Console) *cobra.Command {
	return newDecision(a, "discard", "Discard dead letters", func(ctx context.Context, c *client.Client, d oapi.DeadLetterDecision, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.DiscardDeadLetters(ctx, nil, d, once)
	})
}

func newDecision(a *output.Console, use, short string, send sendDecision) *cobra.Command {
	var f letterFilter
	var all bool
	cmd := &cobra.Command{Use: use + " [ID ...]", Short: short, Long: "Selects unresolved dead letters by id or by the flags, at most 1,000."}
	f.flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all unresolved dead letters")
	cmd.Flags().StringVar(&f.reason, "reason", "", "reason; required")
	_ = cmd.MarkFlagRequired("reason")
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		chosen, err := parseIDs(args)
		if err != nil {
			return nil, err
		}
		if !all && len(chosen) == 0 && f.consumer+f.stream+f.subject == "" {
			return nil, output.UsageError("name dead letters by id, --consumer, --stream, --subject or --all")
		}
		d := oapi.DeadLetterDecision{
			Consumer: output.PointerOrNil(f.consumer), Stream: output.PointerOrNil(oapi.DeadLetterDecisionStream(f.stream)), Subject: output.PointerOrNil(f.subject), Reason: f.reason,
		}
		if len(chosen) > 0 {
			d.DeadLetterIds = &chosen
		}
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return send(ctx, c, d, once)
		}, nil
	}, func(_ *output.Console, all ...oapi.DeadLetterCount) output.Table {
		t := output.Table{Head: []string{"DEAD LETTERS"}}
		for _, n := range all {
			t.Add(use, strconv.Itoa(n.DeadLetters))
		}
		return t
	})
}

func newConsumers(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "consumers", Short: "List consumers", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListConsumers(ctx, &oapi.ListConsumersParams{Limit: size, Cursor: cursor})
		}, nil
	}, func(_ *output.Console, all ...oapi.Consumer) output.Table {
		t := output.Table{Head: []string{"NAME", "STREAM", "PENDING", "REDELIVERED", "LAG", "CHECKED"}, Wide: []string{"EPOCH"}}
		for _, one := range all {
			t.Add("consumer/"+one.Name, one.Name, one.Stream, strconv.FormatInt(one.Pending, 10), strconv.FormatInt(one.Redelivered, 10),
				(time.Duration(one.LagSeconds) * time.Second).String(), output.FormatTime(one.CheckedAt), one.Epoch)
		}
		return t
	})
}

func newReplay(a *output.Console) *cobra.Command {
	var from, to, after, reason string
	var events []string
	var repeat bool
	cmd := &cobra.Command{
		Use: "replay CONSUMER", Short: "Replay stored events to a consumer", Args: cobra.ExactArgs(1),
		Long: "Has a consumer process stored events. An event that it has processed has no second effect without --repeat.",
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "only events from this time on")
	flags.StringVar(&to, "to", "", "only events before this time; now by default")
	flags.StringVar(&after, "after", "", "only events that were stored after this event id")
	flags.StringSliceVar(&events, "event", nil, "only this event id; repeatable")
	flags.BoolVar(&repeat, "repeat", false, "also for processed events: their effect runs again")
	flags.StringVar(&reason, "reason", "", "reason; required")
	_ = cmd.MarkFlagRequired("reason")
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		body := oapi.ReplayRequest{Reason: reason, Repeat: output.PointerOrNil(repeat)}
		for _, given := range []struct {
			text string
			at   **time.Time
		}{{from, &body.FromAt}, {to, &body.ToAt}} {
			if given.text == "" {
				continue
			}
			t, err := time.Parse(time.RFC3339, given.text)
			if err != nil {
				return nil, output.UsageError("%q is not a time like 2026-01-05T09:00:00Z", given.text)
			}
			*given.at = &t
		}
		chosen, err := parseIDs(events)
		if err != nil {
			return nil, err
		}
		if len(chosen) > 0 {
			body.EventIds = &chosen
		}
		if after != "" {
			place, err := parseIDs([]string{after})
			if err != nil {
				return nil, err
			}
			body.AfterEventId = &place[0]
		}
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.ReplayConsumer(ctx, args[0], nil, body, once)
		}, nil
	}, func(_ *output.Console, all ...oapi.ReplayAccepted) output.Table {
		t := output.Table{Head: []string{"CONSUMER", "REPLAY"}}
		for _, one := range all {
			t.Add("replay/"+one.ReplayId.String(), one.Consumer, one.ReplayId.String())
		}
		return t
	})
}
