package main

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

	"github.com/gpuaas/gpuaas/cmd/gpuaas/up"
	"github.com/gpuaas/gpuaas/internal/checkout"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/money"
)

func newDevPayments(a *app) *cobra.Command {
	return group("payments", "The development payment provider: pay without a browser, make trouble",
		newDevPaymentsStatus(a), newDevPaymentsPay(a), newDevPaymentsFault(a), newDevPaymentsClear(a), newDevPaymentsDeliver(a))
}

// provider is the one of the profile's data directory.
func (a *app) paymentProvider() (access checkout.Access, err error) {
	s, err := a.settings()
	if err != nil {
		return access, err
	}
	if s.DataDir == "" {
		return access, errs.New(errs.NotFound, "the profile names no data directory: the development provider runs where gpuaas up does").Try("gpuaas up, on this machine")
	}
	access, err = checkout.ReadAccess(up.PaymentsAccess(s.DataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return access, errs.New(errs.NotFound, "no development payment provider has run in %s", s.DataDir).Try("gpuaas up, without STRIPE_SECRET_KEY").Because(err)
	}
	return access, err
}

// withProvider does one thing at the provider, and says what went wrong there.
func (a *app) withProvider(do func(checkout.Access) error) error {
	access, err := a.paymentProvider()
	if err != nil {
		return err
	}
	err = do(access)
	var refused *checkout.RefusedError
	var unreachable *url.Error
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
		return errs.New(errs.NotFound, "%s", refused.Message).Try("gpuaas dev payments status")
	case errors.As(err, &refused):
		return errs.New(errs.Conflict, "%s", refused.Message).Try("gpuaas dev payments status")
	case errors.As(err, &unreachable):
		return errs.New(errs.Unavailable, "the development payment provider at %s does not answer", access.URL).Try("gpuaas up").Because(err)
	}
	return err
}

func newDevPaymentsStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show pages, faults to come and webhooks that were not taken", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withProvider(func(p checkout.Access) error {
				s, err := p.Status(cmd.Context())
				if err != nil {
					return err
				}
				document, err := encode(s)
				if err != nil {
					return err
				}
				return a.show(document, a.statusTable(s))
			})
		},
	}
}

func (a *app) statusTable(s checkout.Status) table {
	t := table{head: []string{"WHAT", "STATUS", "DETAIL"}, wide: []string{"URL"}}
	t.add("provider/"+s.URL, "provider", fmt.Sprintf("%s, %s, %s", count(s.Charges, "charge"), count(s.Refunds, "refund"), count(s.Events, "event")), "webhooks to "+orDash(s.Webhook), s.URL)
	for _, f := range s.Faults {
		t.add("fault/"+f.Name, "fault/"+f.Name, strconv.Itoa(f.Left)+" to come", f.Does, "")
	}
	for _, p := range s.Pages {
		t.add("page/"+p.ID, "page/"+p.ID, p.Status+", "+p.PaymentStatus, money.Format(p.Currency, money.Minor(p.AmountMinor))+" "+p.Reference, p.URL)
	}
	for _, d := range s.Deliveries {
		status := fmt.Sprintf("waits, %s", count(d.Attempts, "attempt"))
		if d.GaveUp {
			status = "given up"
		}
		t.add("event/"+d.Event, "event/"+d.Event, status, strings.TrimSpace(d.Type+" "+d.Problem), "")
	}
	return t
}

func newDevPaymentsPay(a *app) *cobra.Command {
	number := checkout.CardPaid
	cmd := &cobra.Command{
		Use: "pay SESSION_OR_URL", Short: "Pay on a page as a person with a browser would", Args: cobra.ExactArgs(1),
		Long: `Opens the page of a payment session, types a card and sends the form.

The session is named by its id, the provider's id of it, or the address of its page.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withProvider(func(p checkout.Access) error {
				return a.pay(cmd.Context(), p, strings.TrimPrefix(args[0], "payment/"), number)
			})
		},
	}
	cmd.Flags().StringVar(&number, "card", number, "number of the card; the page lists what each does")
	return cmd
}

func (a *app) pay(ctx context.Context, p checkout.Access, ref, number string) error {
	page, err := p.Page(ctx, ref)
	if err != nil {
		return err
	}
	next, err := checkout.Pay(ctx, page, number)
	if declined, ok := errors.AsType[*checkout.DeclinedError](err); ok {
		return errs.New(errs.Conflict, "%s", declined.Message).Try("gpuaas dev payments pay %s --card %s", ref, checkout.CardPaid)
	}
	if err != nil {
		return err
	}
	document, err := encode(map[string]string{"page": page, "next": next})
	if err != nil {
		return err
	}
	t := table{head: []string{"PAGE", "LEADS TO"}}
	t.add("page/"+ref, page, next)
	return a.show(document, t)
}

func newDevPaymentsFault(a *app) *cobra.Command {
	names, does := checkout.Faults()
	var text strings.Builder
	text.WriteString("Makes a fault happen to the next COUNT (1) of its kind; 0 takes it back.\n")
	for _, name := range names {
		fmt.Fprintf(&text, "\n  %-18s %s", name, does[name])
	}
	return &cobra.Command{
		Use: "fault NAME[=COUNT]", Short: "Make something go wrong", Long: text.String(), Args: cobra.ExactArgs(1), ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, times, counted := strings.Cut(args[0], "=")
			n := 1
			if counted {
				var err error
				if n, err = strconv.Atoi(times); err != nil || n < 0 {
					return usage("%q is no count", times)
				}
			}
			if does[name] == "" {
				f := usage("there is no fault %q", name)
				f.Try = "one of: " + strings.Join(names, ", ")
				return f
			}
			return a.withProvider(func(p checkout.Access) error {
				if err := p.Arm(cmd.Context(), name, n); err != nil {
					return err
				}
				return a.did("fault/"+name, strconv.Itoa(n)+" to come")
			})
		},
	}
}

func newDevPaymentsClear(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "clear", Short: "Take all faults back", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withProvider(func(p checkout.Access) error {
				if err := p.Clear(cmd.Context()); err != nil {
					return err
				}
				return a.did("faults", "taken back")
			})
		},
	}
}

func newDevPaymentsDeliver(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "deliver [EVENT]", Short: "Send the webhooks that wait, or one again", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			event := strings.TrimPrefix(strings.Join(args, ""), "event/")
			return a.withProvider(func(p checkout.Access) error {
				sent, err := p.Deliver(cmd.Context(), event)
				if err != nil {
					return err
				}
				return a.did("webhooks", count(sent, "webhook")+" on the way")
			})
		},
	}
}

// did shows one thing that was done.
func (a *app) did(what, did string) error {
	document, err := encode(map[string]string{"what": what, "did": did})
	if err != nil {
		return err
	}
	t := table{head: []string{"WHAT", "DID"}}
	t.add(what, what, did)
	return a.show(document, t)
}
