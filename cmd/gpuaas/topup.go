package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const topUpText = `Opens a checkout at the payment provider, sends you to its page, and waits until
the money is on the balance. Ctrl-C stops the waiting only: the page stays good,
and gpuaas payment get tells how it ended.

AMOUNT is in the currency of your balance: 50, 50.00 or "EUR 50".`

func newTopUp(a *app) *cobra.Command {
	var noBrowser, noWait bool
	timeout := 30 * time.Minute
	cmd := &cobra.Command{
		Use: "top-up AMOUNT", Short: "Pay on the provider's page, and see the balance grow", Long: topUpText, Args: cobra.ExactArgs(1),
		Example: "  gpuaas balance top-up 50\n  gpuaas balance top-up 50 --no-browser --no-wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			opened, err := c.topUp(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if at := deref(opened.Value.Url); at != "" {
				a.visit(at, a.opener(noBrowser), fmt.Sprintf("Pay %s at", amount(opened.Value.Amount)))
			}
			if noWait {
				return a.show(opened.Raw, paymentTable(a, opened.Value))
			}
			return a.awaitPayment(cmd.Context(), c, opened, timeout)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&noBrowser, "no-browser", false, "only print the address")
	flags.BoolVar(&noWait, "no-wait", false, "do not wait for the credit")
	flags.DurationVar(&timeout, "timeout", timeout, "how long to wait")
	return cmd
}

func (c *client) topUp(ctx context.Context, text string) (answer[oapi.PaymentSession], error) {
	b, err := c.balance(ctx)
	if err != nil {
		return answer[oapi.PaymentSession]{}, err
	}
	m, err := amountIn(b.Value.Currency, "AMOUNT", text)
	if err != nil {
		return answer[oapi.PaymentSession]{}, err
	}
	return change[oapi.PaymentSession](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.CreateCheckoutSession(ctx, nil, oapi.CheckoutRequest{AmountMinor: m}, once)
	})
}

// opener is the browser, unless nobody wants it.
func (a *app) opener(not bool) func(string) error {
	if not {
		return nil
	}
	return a.browser()
}

// awaitPayment follows a checkout to its end and prints it as it was last seen. It
// only watches.
func (a *app) awaitPayment(ctx context.Context, c *client, from answer[oapi.PaymentSession], timeout time.Duration) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	now, err := a.followPayment(within, c, from)
	p := now.Value
	look := "gpuaas payment get " + p.Id.String()
	switch {
	case ctx.Err() != nil:
		return &failure{Message: "the checkout stays open; only the waiting was stopped", Code: codeInterrupted, Try: look, Correlation: c.correlation, Exit: exitInterrupted}
	case within.Err() != nil:
		err = &failure{Message: fmt.Sprintf("it is still %s after %s; the checkout stays open", p.Status, timeout), Code: codeTimeout, Try: look, Correlation: c.correlation, Exit: exitTimeout}
	case err == nil && p.Status != oapi.PaymentStatusCredited:
		err = &failure{
			Message: fmt.Sprintf("nothing was credited: the payment is %s (%s)", p.Status, cmp.Or(deref(p.Reason), "no reason was given")), Code: string(p.Status),
			Try: "gpuaas balance top-up once more, or ask those who run the platform about " + p.Id.String(), Correlation: c.correlation, Exit: exitFailure,
		}
	case err == nil:
		a.sayCredited(ctx, c, p)
	}
	return errors.Join(a.show(now.Raw, paymentTable(a, p)), err)
}

// followPayment looks until the checkout has ended.
func (a *app) followPayment(ctx context.Context, c *client, now answer[oapi.PaymentSession]) (answer[oapi.PaymentSession], error) {
	wake := make(chan struct{}, 1)
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.wakeUp(listening, wake)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()

	var said oapi.PaymentStatus
	for {
		if s := now.Value.Status; s != said {
			said = s
			switch s {
			case oapi.PaymentStatusInitiated:
				a.say("%s waiting for the payment", symbolBusy)
			case oapi.PaymentStatusCheckoutCompleted:
				a.say("%s the money is on its way", symbolBusy)
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
		next, err := c.payment(ctx, now.Value.Id)
		switch {
		case err == nil:
			now = next
		case ctx.Err() != nil:
			return now, ctx.Err()
		case codeOf(err) != errs.Unavailable:
			return now, err
		}
	}
}

// sayCredited also says what there is now, for who may see it.
func (a *app) sayCredited(ctx context.Context, c *client, p oapi.PaymentSession) {
	a.say("%s %s is on the balance", symbolGood, amount(p.Amount))
	if b, err := c.balance(ctx); err == nil {
		a.say("%s There is %s now.", symbolGood, minor(b.Value.Currency, b.Value.AmountMinor))
	}
}

func newPortal(a *app) *cobra.Command {
	var noBrowser bool
	cmd := &cobra.Command{
		Use: "portal", Short: "The provider's page about you: receipts and saved cards", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			made, err := change[oapi.PortalSession](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.CreatePortalSession(ctx, nil, oapi.PortalRequest{}, once)
			})
			if err != nil {
				return err
			}
			if open := a.opener(noBrowser); open != nil && open(made.Value.Url) == nil {
				a.say("Your browser opens. If it does not, go to the address below.")
			}
			t := table{}
			t.add("portal/"+made.Value.Url, made.Value.Url)
			return a.show(made.Raw, t)
		},
	}
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the address")
	return cmd
}
