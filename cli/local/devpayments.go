package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/dev/stripe/control"
	"github.com/gpuaas/gpuaas/dev/up"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/money"
)

func newDevPayments(a *output.Console) *cobra.Command {
	return output.Group("payments", "Control the payment double",
		newDevPaymentsStatus(a), newDevPaymentsPay(a), newDevPaymentsFault(a), newDevPaymentsClear(a), newDevPaymentsDeliver(a))
}

// provider is the one of the profile's data directory.
func paymentProvider(a *output.Console) (access control.Access, err error) {
	s, err := client.ReadSettings(a)
	if err != nil {
		return access, err
	}
	if s.DataDir == "" {
		return access, errs.New(errs.NotFound, "the profile names no data directory: the development provider runs only with gpuaas up").Try("gpuaas up, on the local machine")
	}
	access, err = control.ReadAccess(up.PaymentsAccess(s.DataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return access, errs.New(errs.NotFound, "no development payment provider has run in %s", s.DataDir).Try("gpuaas up, without STRIPE_SECRET_KEY").Because(err)
	}
	return access, err
}

// withProvider runs an action at the payment double and explains its error.
func withProvider(a *output.Console, do func(control.Access) error) error {
	access, err := paymentProvider(a)
	if err != nil {
		return err
	}
	err = do(access)
	var refused *control.DeniedError
	var unreachable *url.Error
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
		return errs.New(errs.NotFound, "%s", refused.Message).Try("gpuaas dev payments status")
	case errors.As(err, &refused):
		return errs.New(errs.Conflict, "%s", refused.Message).Try("gpuaas dev payments status")
	case errors.As(err, &unreachable):
		return errs.New(errs.Unavailable, "the development payment provider at %s is not reachable", access.URL).Try("gpuaas up").Because(err)
	}
	return err
}

func newDevPaymentsStatus(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show checkout pages, faults and webhooks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withProvider(a, func(p control.Access) error {
				s, err := p.Status(cmd.Context())
				if err != nil {
					return err
				}
				document, err := output.Encode(s)
				if err != nil {
					return err
				}
				return a.Show(document, statusTable(s))
			})
		},
	}
}

func statusTable(s stripe.Status) output.Table {
	t := output.Table{Head: []string{"WHAT", "STATUS", "DETAIL"}, Wide: []string{"URL"}}
	t.Add("provider/"+s.URL, "provider", fmt.Sprintf("%s, %s, %s", output.CountOf(s.Charges, "charge"), output.CountOf(s.Refunds, "refund"), output.CountOf(s.Events, "event")), "webhooks to "+output.OrDash(s.Webhook), s.URL)
	for _, f := range s.Faults {
		t.Add("fault/"+f.Name, "fault/"+f.Name, strconv.Itoa(f.Left)+" pending", f.Does, "")
	}
	for _, p := range s.Pages {
		t.Add("page/"+p.ID, "page/"+p.ID, p.Status+", "+p.PaymentStatus, money.Format(p.Currency, money.Minor(p.AmountMinor))+" "+p.Reference, p.URL)
	}
	for _, d := range s.Deliveries {
		status := fmt.Sprintf("waits, %s", output.CountOf(d.Attempts, "attempt"))
		if d.GaveUp {
			status = "given up"
		}
		t.Add("event/"+d.Event, "event/"+d.Event, status, strings.TrimSpace(d.Type+" "+d.Problem), "")
	}
	return t
}

func newDevPaymentsPay(a *output.Console) *cobra.Command {
	number := stripe.CardPaid
	cmd := &cobra.Command{
		Use: "pay SESSION_OR_URL", Short: "Pay an open checkout session", Args: cobra.ExactArgs(1),
		Long: `Opens the page of a payment session, types a card and sends the form.

The session is named by its id, the provider's id of it, or the address of its page.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withProvider(a, func(p control.Access) error {
				return pay(cmd.Context(), a, p, strings.TrimPrefix(args[0], "payment/"), number)
			})
		},
	}
	cmd.Flags().StringVar(&number, "card", number, "card number; the checkout page lists the test cards")
	return cmd
}

func pay(ctx context.Context, a *output.Console, p control.Access, ref, number string) error {
	page, err := p.Page(ctx, ref)
	if err != nil {
		return err
	}
	next, err := control.Pay(ctx, page, number)
	if declined, ok := errors.AsType[*control.DeclinedError](err); ok {
		return errs.New(errs.Conflict, "%s", declined.Message).Try("gpuaas dev payments pay %s --card %s", ref, stripe.CardPaid)
	}
	if err != nil {
		return err
	}
	document, err := output.Encode(map[string]string{"page": page, "next": next})
	if err != nil {
		return err
	}
	t := output.Table{Head: []string{"PAGE", "LEADS TO"}}
	t.Add("page/"+ref, page, next)
	return a.Show(document, t)
}

func newDevPaymentsFault(a *output.Console) *cobra.Command {
	names, does := stripe.Faults()
	var text strings.Builder
	text.WriteString("Injects a fault into the next COUNT (default 1) operations of its kind; 0 removes it.\n")
	for _, name := range names {
		fmt.Fprintf(&text, "\n  %-18s %s", name, does[name])
	}
	return &cobra.Command{
		Use: "fault NAME[=COUNT]", Short: "Inject a payment fault", Long: text.String(), Args: cobra.ExactArgs(1), ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, times, counted := strings.Cut(args[0], "=")
			n := 1
			if counted {
				var err error
				if n, err = strconv.Atoi(times); err != nil || n < 0 {
					return output.UsageError("%q is no count", times)
				}
			}
			if does[name] == "" {
				f := output.UsageError("fault %q does not exist", name)
				f.Try = "one of: " + strings.Join(names, ", ")
				return f
			}
			return withProvider(a, func(p control.Access) error {
				if err := p.Arm(cmd.Context(), name, n); err != nil {
					return err
				}
				return did(a, "fault/"+name, strconv.Itoa(n)+" pending")
			})
		},
	}
}

func newDevPaymentsClear(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "clear", Short: "Clear payment faults", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withProvider(a, func(p control.Access) error {
				if err := p.Clear(cmd.Context()); err != nil {
					return err
				}
				return did(a, "faults", "cleared")
			})
		},
	}
}

func newDevPaymentsDeliver(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "deliver [EVENT]", Short: "Deliver pending webhooks", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			event := strings.TrimPrefix(strings.Join(args, ""), "event/")
			return withProvider(a, func(p control.Access) error {
				sent, err := p.Deliver(cmd.Context(), event)
				if err != nil {
					return err
				}
				return did(a, "webhooks", output.CountOf(sent, "webhook")+" on the way")
			})
		},
	}
}

// did prints the result of an action.
func did(a *output.Console, what, did string) error {
	document, err := output.Encode(map[string]string{"what": what, "did": did})
	if err != nil {
		return err
	}
	t := output.Table{Head: []string{"WHAT", "DID"}}
	t.Add(what, what, did)
	return a.Show(document, t)
}
