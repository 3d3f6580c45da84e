package money

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const topUpText = `Creates a checkout session at the payment provider, opens its page, and waits until the payment
is credited. Ctrl-C stops the waiting only: the page stays valid, and gpuaas payment get
prints the result.

AMOUNT is in the currency of the balance: 50, 50.00 or "EUR 50".`

func newTopUp(a *output.Console) *cobra.Command {
	var noBrowser, noWait bool
	timeout := 30 * time.Minute
	cmd := &cobra.Command{
		Use: "top-up AMOUNT", Short: "Top up the balance", Long: topUpText, Args: cobra.ExactArgs(1),
		Example: "  gpuaas balance top-up 50\n  gpuaas balance top-up 50 --no-browser --no-wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			opened, err := topUp(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if at := output.ValueOrZero(opened.Value.Url); at != "" {
				a.Visit(at, opener(a, noBrowser), fmt.Sprintf("Pay %s at", output.Amount(opened.Value.Amount)))
			}
			if noWait {
				return a.Show(opened.Raw, paymentTable(a, opened.Value))
			}
			return awaitPayment(cmd.Context(), a, c, opened, timeout)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&noBrowser, "no-browser", false, "only print the address")
	flags.BoolVar(&noWait, "no-wait", false, "do not wait for the credit")
	flags.DurationVar(&timeout, "timeout", timeout, "how long to wait")
	return cmd
}

func topUp(ctx context.Context, c *client.Client, text string) (client.Response[oapi.PaymentSession], error) {
	b, err := c.Balance(ctx)
	if err != nil {
		return client.Response[oapi.PaymentSession]{}, err
	}
	m, err := amountIn(b.Value.Currency, "AMOUNT", text)
	if err != nil {
		return client.Response[oapi.PaymentSession]{}, err
	}
	return client.Change[oapi.PaymentSession](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.CreateCheckoutSession(ctx, nil, oapi.CheckoutRequest{AmountMinor: m}, once)
	})
}

// opener returns the function that opens the browser, or nil if the user has disabled it.
func opener(a *output.Console, not bool) func(string) error {
	if not {
		return nil
	}
	return a.Browser()
}

// awaitPayment polls a checkout to its end and prints its last state. It only reads.
func awaitPayment(ctx context.Context, a *output.Console, c *client.Client, from client.Response[oapi.PaymentSession], timeout time.Duration) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	now, err := followPayment(within, a, c, from)
	p := now.Value
	look := "gpuaas payment get " + p.Id.String()
	switch {
	case ctx.Err() != nil:
		return &output.CommandError{Message: "the checkout stays open; only the waiting was stopped", Code: output.CodeInterrupted, Try: look, Correlation: c.Correlation, Exit: output.ExitInterrupted}
	case within.Err() != nil:
		err = &output.CommandError{Message: fmt.Sprintf("it is still %s after %s; the checkout stays open", p.Status, timeout), Code: output.CodeTimeout, Try: look, Correlation: c.Correlation, Exit: output.ExitTimeout}
	case err == nil && p.Status != oapi.PaymentStatusCredited:
		err = &output.CommandError{
			Message: fmt.Sprintf("nothing was credited: the payment is %s (%s)", p.Status, cmp.Or(output.ValueOrZero(p.Reason), "no reason was given")), Code: string(p.Status),
			Try: "run gpuaas balance top-up again, or send this id to an operator: " + p.Id.String(), Correlation: c.Correlation, Exit: output.ExitFailure,
		}
	case err == nil:
		sayCredited(ctx, a, c, p)
	}
	return errors.Join(a.Show(now.Raw, paymentTable(a, p)), err)
}

// followPayment polls until the checkout has ended.
func followPayment(ctx context.Context, a *output.Console, c *client.Client, now client.Response[oapi.PaymentSession]) (client.Response[oapi.PaymentSession], error) {
	wake := make(chan struct{}, 1)
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.WakeUp(listening, wake)
	tick := time.NewTicker(client.PollEvery)
	defer tick.Stop()

	var said oapi.PaymentStatus
	for {
		if s := now.Value.Status; s != said {
			said = s
			switch s {
			case oapi.PaymentStatusInitiated:
				a.Notify("%s waiting for the payment", output.SymbolBusy)
			case oapi.PaymentStatusCheckoutCompleted:
				a.Notify("%s the payment is in progress", output.SymbolBusy)
			case oapi.PaymentStatusCredited, oapi.PaymentStatusFailedReconcile, oapi.PaymentStatusExpired:
				return now, nil
			}
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-wake:
		case <-tick.C:
		}
		next, err := Payment(ctx, c, now.Value.Id)
		switch {
		case err == nil:
			now = next
		case ctx.Err() != nil:
			return now, ctx.Err()
		case client.CodeOf(err) != errs.Unavailable:
			return now, err
		}
	}
}

// sayCredited also prints the balance, for users who may read it.
func sayCredited(ctx context.Context, a *output.Console, c *client.Client, p oapi.PaymentSession) {
	a.Notify("%s %s is on the balance", output.SymbolGood, output.Amount(p.Amount))
	if b, err := c.Balance(ctx); err == nil {
		a.Notify("%s The balance is %s.", output.SymbolGood, output.ParseAmount(b.Value.Currency, b.Value.AmountMinor))
	}
}

func newPortal(a *output.Console) *cobra.Command {
	var noBrowser bool
	cmd := &cobra.Command{
		Use: "portal", Short: "Open the payment provider's customer portal", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			made, err := client.Change[oapi.PortalSession](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.CreatePortalSession(ctx, nil, oapi.PortalRequest{}, once)
			})
			if err != nil {
				return err
			}
			if open := opener(a, noBrowser); open != nil && open(made.Value.Url) == nil {
				a.Notify("The browser opens. If it does not open, go to the address below.")
			}
			t := output.Table{}
			t.Add("portal/"+made.Value.Url, made.Value.Url)
			return a.Show(made.Raw, t)
		},
	}
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the address")
	return cmd
}
