package money

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

const autoTopupText = `An automatic top-up charges a stored card when the balance is low. Create one, store the card on
the page of the payment provider, and confirm the amounts. Nothing is charged before.`

func newAutoTopup(a *output.Console) *cobra.Command {
	cmd := output.Group("auto-topup", "Manage automatic top-ups", newAutoTopupList(a), newAutoTopupCreate(a), newAutoTopupConfirm(a), newAutoTopupResume(a), newAutoTopupDelete(a))
	cmd.Long = autoTopupText
	cmd.Example = "  gpuaas balance auto-topup create\n  gpuaas balance auto-topup confirm ID --threshold 20 --amount 50 --monthly-cap 200"
	return cmd
}

func newAutoTopupList(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List automatic top-ups", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListAutoTopups(ctx, &oapi.ListAutoTopupsParams{Limit: size, Cursor: cursor})
		}, nil
	}, autoTopupTable)
}

func newAutoTopupCreate(a *output.Console) *cobra.Command {
	var noBrowser bool
	cmd := &cobra.Command{Use: "create", Short: "Create an automatic top-up", Args: cobra.NoArgs}
	client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateAutoTopup(ctx, nil, once)
		}, nil
	}, func(a *output.Console, all ...oapi.AutoTopup) output.Table {
		if at := output.ValueOrZero(all[0].Url); at != "" {
			a.Visit(at, opener(a, noBrowser), "Store the card at")
		}
		return autoTopupTable(a, all...)
	})
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the address")
	return cmd
}

// confirmation is the terms as they are typed.
type confirmation struct{ threshold, amount, monthlyCap string }

func (t confirmation) read(currency string) (terms oapi.AutoTopupTerms, err error) {
	terms.Currency = currency
	for _, f := range []struct {
		name, text string
		to         *int64
	}{{"--threshold", t.threshold, &terms.ThresholdMinor}, {"--amount", t.amount, &terms.AmountMinor}, {"--monthly-cap", t.monthlyCap, &terms.MonthlyCapMinor}} {
		if *f.to, err = amountIn(currency, f.name, f.text); err != nil {
			return terms, err
		}
	}
	return terms, nil
}

func newAutoTopupConfirm(a *output.Console) *cobra.Command {
	var typed confirmation
	cmd := &cobra.Command{
		Use: "confirm ID", Short: "Confirm the amounts of an automatic top-up", Args: cobra.ExactArgs(1),
		Example: "  gpuaas balance auto-topup confirm ID --threshold 20 --amount 50 --monthly-cap 200",
	}
	flags := cmd.Flags()
	flags.StringVar(&typed.threshold, "threshold", "", "top up when the balance is below this amount")
	flags.StringVar(&typed.amount, "amount", "", "amount of each charge")
	flags.StringVar(&typed.monthlyCap, "monthly-cap", "", "maximum of all charges of a month (UTC)")
	for _, name := range []string{"threshold", "amount", "monthly-cap"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return confirmAutoTopup(a, cmd, func(m oapi.AutoTopup) (oapi.AutoTopupTerms, error) { return typed.read(m.Currency) })
}

func newAutoTopupResume(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "resume ID", Short: "Resume a paused automatic top-up", Args: cobra.ExactArgs(1)}
	return confirmAutoTopup(a, cmd, func(m oapi.AutoTopup) (oapi.AutoTopupTerms, error) {
		if m.Status != oapi.AutoTopupStatusPaused {
			return oapi.AutoTopupTerms{}, output.UsageError("the automatic top-up is %s, not paused", m.Status)
		}
		return oapi.AutoTopupTerms{ThresholdMinor: m.ThresholdMinor, AmountMinor: m.AmountMinor, MonthlyCapMinor: m.MonthlyCapMinor, Currency: m.Currency}, nil
	})
}

// confirmAutoTopup completes a command that confirms amounts, which may be the present ones.
func confirmAutoTopup(a *output.Console, cmd *cobra.Command, terms func(oapi.AutoTopup) (oapi.AutoTopupTerms, error)) *cobra.Command {
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		id, err := autoTopupID(args[0])
		if err != nil {
			return nil, err
		}
		found, err := client.Send[oapi.AutoTopup](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetAutoTopup(ctx, id) })
		if err != nil {
			return nil, err
		}
		confirmed, err := terms(found.Value)
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.ConfirmAutoTopup(ctx, id, nil, confirmed, once)
		}, err
	}, autoTopupTable)
}

func newAutoTopupDelete(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "delete ID", Short: "Delete an automatic top-up", Args: cobra.ExactArgs(1)}
	return client.DeleteCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Effect, error) {
		id, err := autoTopupID(args[0])
		return client.Effect{
			Name: id.String(), What: "the automatic top-up has ended, and its card is charged no more",
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteAutoTopup(ctx, id, nil, once)
			},
		}, err
	})
}

func autoTopupID(ref string) (uuid.UUID, error) {
	id, ref, ok := output.IdOf(ref)
	if !ok {
		return id, output.UsageError("%q is no id of an automatic top-up", ref)
	}
	return id, nil
}

func autoTopupTable(a *output.Console, all ...oapi.AutoTopup) output.Table {
	t := output.Table{Head: []string{"ID", "STATUS", "BELOW", "AMOUNT", "MONTHLY CAP", "THIS MONTH", "REASON", "AGE"}, Wide: []string{"FAILURES", "NEXT", "URL"}}
	for _, m := range all {
		t.Add("auto-topup/"+m.Id.String(), m.Id.String(), autoTopupStatus(m.Status), output.ParseAmount(m.Currency, m.ThresholdMinor), output.ParseAmount(m.Currency, m.AmountMinor),
			output.ParseAmount(m.Currency, m.MonthlyCapMinor), output.ParseAmount(m.Currency, m.ChargedThisMonthMinor), output.CellText(output.ValueOrZero(m.Reason)),
			output.Age(a.Clock.Now(), m.CreatedAt), output.Itoa(int64(m.Failures)), output.ExpiryText(m.NextChargeAt), output.CellText(output.ValueOrZero(m.Url)))
	}
	return t
}

// autoTopupStatus returns the status with its symbol.
func autoTopupStatus(s oapi.AutoTopupStatus) string {
	switch s {
	case oapi.AutoTopupStatusActive:
		return output.SymbolGood + " active"
	case oapi.AutoTopupStatusPaused:
		return output.SymbolBad + " paused"
	case oapi.AutoTopupStatusPending, oapi.AutoTopupStatusUnconfirmed, oapi.AutoTopupStatusEnded:
	}
	return output.SymbolBusy + " " + string(s)
}
