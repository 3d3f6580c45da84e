package main

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/money"
)

func (c *client) balance(ctx context.Context) (answer[oapi.Balance], error) {
	return ask[oapi.Balance](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetBalance(ctx, nil, c.inProject) })
}

func newBalance(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "balance", Short: "What you have, what you burn, how long it lasts; top it up, and limit it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.balance(cmd.Context())
			if err != nil {
				return err
			}
			if err := a.show(got.Raw, balanceTable(got.Value)); err != nil {
				return err
			}
			a.warnOf(got.Value)
			return nil
		},
	}
	cmd.AddCommand(newTopUp(a), newPortal(a), newLimits(a))
	return cmd
}

func balanceTable(b oapi.Balance) table {
	lasts := "for ever (nothing is burnt)"
	if b.RunwaySeconds != nil {
		lasts = lasting(*b.RunwaySeconds)
	}
	status := symbolGood + " enough"
	switch {
	case b.AmountMinor <= 0:
		status = symbolBad + " empty"
	case b.ReleasesAt != nil:
		status = symbolBad + " ends " + stamp(*b.ReleasesAt)
	case deref(b.Low):
		status = symbolWarn + " low"
	}
	t := table{head: []string{"BALANCE", "BURN/H", "LASTS", "SPENT THIS MONTH", "PENDING", "STATUS"}, wide: []string{"LOW BELOW"}}
	t.add("balance/"+b.Currency, minor(b.Currency, b.AmountMinor), minor(b.Currency, b.BurnMinorPerHour), lasts, maybe(b.Currency, b.SpentThisMonthMinor),
		orDash(none(b.Currency, deref(b.PendingMinor))), status, maybe(b.Currency, b.LowThresholdMinor))
	return t
}

// warnOf says what will happen by itself unless somebody pays.
func (a *app) warnOf(b oapi.Balance) {
	switch {
	case b.ReleasesAt != nil:
		left := lasting(max(0, int64(b.ReleasesAt.Sub(a.Clock.Now())/time.Second)))
		a.say("%s Everything is released at %s, in %s, unless credit comes: gpuaas balance top-up AMOUNT", symbolBad, stamp(*b.ReleasesAt), left)
	case deref(b.Low):
		a.say("%s The balance is below %s: gpuaas balance top-up AMOUNT", symbolWarn, minor(b.Currency, deref(b.LowThresholdMinor)))
	}
}

func minor(currency string, amount int64) string { return money.Format(currency, money.Minor(amount)) }

func maybe(currency string, amount *int64) string {
	if amount == nil {
		return "-"
	}
	return minor(currency, *amount)
}

// none leaves out what is nothing.
func none(currency string, amount int64) string {
	if amount == 0 {
		return ""
	}
	return minor(currency, amount)
}

// amountIn reads an amount that has to be in a currency.
func amountIn(currency, what, text string) (int64, error) {
	said, m, err := money.Parse(text)
	switch {
	case err != nil:
		return 0, usage("%s: %v", what, err)
	case said != "" && currency == "":
		return 0, usage("%s: the currency is not known here: leave %s out", what, said)
	case said != "" && said != currency:
		return 0, usage("%s: the balance is in %s, not in %s", what, currency, said)
	}
	return int64(m), nil
}

// period is one as it is typed.
type period struct{ from, to string }

func (p *period) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.from, "from", "", "start: RFC 3339, a day, or how long ago, like 7d; this month when left out")
	cmd.Flags().StringVar(&p.to, "to", "", "end, in the same forms; now when left out")
}

func (p *period) read(a *app) (from, to *time.Time, err error) {
	if from, err = a.moment("--from", p.from); err != nil {
		return nil, nil, err
	}
	to, err = a.moment("--to", p.to)
	return from, to, err
}

// moment reads a time, a day, or a length of time before now.
func (a *app) moment(flag, text string) (*time.Time, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // left out is a value: the server's default
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return &t, nil
		}
	}
	span, err := parseSpan(text)
	if err != nil {
		return nil, usage("%s: %q is no time like 2026-01-05T09:00:00Z, 2026-01-05 or 7d", flag, text)
	}
	t := a.Clock.Now().Add(-span)
	return &t, nil
}
