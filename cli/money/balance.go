// Package money contains the commands of billing and payment.
package money

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/money"
)

func NewBalance(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use: "balance", Short: "Show balance, burn rate and runway", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			got, err := c.Balance(cmd.Context())
			if err != nil {
				return err
			}
			if err := a.Show(got.Raw, balanceTable(got.Value)); err != nil {
				return err
			}
			warnOf(a, got.Value)
			return nil
		},
	}
	cmd.AddCommand(newTopUp(a), newAutoTopup(a), newPortal(a), newLimits(a))
	return cmd
}

func balanceTable(b oapi.Balance) output.Table {
	lasts := "unlimited (burn rate is zero)"
	if b.RunwaySeconds != nil {
		lasts = output.FormatSeconds(*b.RunwaySeconds)
	}
	status := output.SymbolGood + " enough"
	switch {
	case b.AmountMinor <= 0:
		status = output.SymbolBad + " empty"
	case b.ReleasesAt != nil:
		status = output.SymbolBad + " ends " + output.FormatTime(*b.ReleasesAt)
	case output.ValueOrZero(b.Low):
		status = output.SymbolWarn + " low"
	}
	t := output.Table{Head: []string{"BALANCE", "BURN/H", "LASTS", "SPENT THIS MONTH", "PENDING", "STATUS"}, Wide: []string{"LOW BELOW"}}
	t.Add("balance/"+b.Currency, output.ParseAmount(b.Currency, b.AmountMinor), output.ParseAmount(b.Currency, b.BurnPerHourMinor), lasts, maybe(b.Currency, b.SpentThisMonthMinor),
		output.OrDash(none(b.Currency, output.ValueOrZero(b.PendingMinor))), status, maybe(b.Currency, b.LowThresholdMinor))
	return t
}

// warnOf prints what the platform will do if the tenant does not top up.
func warnOf(a *output.Console, b oapi.Balance) {
	if b.FilesDeletedAt != nil {
		a.Notify("%s All files are deleted at %s without a credit: gpuaas balance top-up AMOUNT", output.SymbolBad, output.FormatTime(*b.FilesDeletedAt))
	}
	switch {
	case b.ReleasesAt != nil:
		left := output.FormatSeconds(max(0, int64(b.ReleasesAt.Sub(a.Clock.Now())/time.Second)))
		a.Notify("%s All allocations are released at %s, in %s, without a credit: gpuaas balance top-up AMOUNT", output.SymbolBad, output.FormatTime(*b.ReleasesAt), left)
	case output.ValueOrZero(b.Low):
		a.Notify("%s The balance is below %s: gpuaas balance top-up AMOUNT", output.SymbolWarn, output.ParseAmount(b.Currency, output.ValueOrZero(b.LowThresholdMinor)))
	}
}

func maybe(currency string, amount *int64) string {
	if amount == nil {
		return "-"
	}
	return output.ParseAmount(currency, *amount)
}

// none leaves out what is nothing.
func none(currency string, amount int64) string {
	if amount == 0 {
		return ""
	}
	return output.ParseAmount(currency, amount)
}

// amountIn reads an amount that has to be in a currency.
func amountIn(currency, what, text string) (int64, error) {
	said, m, err := money.Parse(text)
	switch {
	case err != nil:
		return 0, output.UsageError("%s: %v", what, err)
	case said != "" && currency == "":
		return 0, output.UsageError("%s: the currency is unknown: omit %s", what, said)
	case said != "" && said != currency:
		return 0, output.UsageError("%s: the balance is in %s, not in %s", what, currency, said)
	}
	return int64(m), nil
}

// period is one as it is typed.
type period struct{ from, to string }

func (p *period) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.from, "from", "", "start: RFC 3339, a day, or how long ago, like 7d; this month when left out")
	cmd.Flags().StringVar(&p.to, "to", "", "end, in the same forms; now when left out")
}

func (p *period) read(a *output.Console) (from, to *time.Time, err error) {
	if from, err = a.ParseTime("--from", p.from); err != nil {
		return nil, nil, err
	}
	to, err = a.ParseTime("--to", p.to)
	return from, to, err
}
