package money

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/platform/payment"
)

const ledgerText = `Computes every balance from the first entry and compares it with the stored balance and
with every seal. The command also searches for transfers that do not add up to zero. It
ends with 1 and the tenant, the account and the entries of the first fault.

The command reads the database of DATABASE_URL, or else of the profile of gpuaas up. An
attacker who can write every table can also write matching seals. Store the output of
-o json in another place, and pass it to a later run with --heads.`

func newLedgerVerify(a *output.Console) *cobra.Command {
	var tenant, heads string
	var all bool
	cmd := &cobra.Command{
		Use: "verify", Short: "Verify balances and seals", Long: ledgerText, Args: cobra.NoArgs,
		Example: "  gpuaas ledger verify -o json > ledger.json\n  gpuaas ledger verify --tenant acme --heads ledger.json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return ledgerVerify(cmd.Context(), a, tenant, heads, all) },
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "only this one's balance, by name or id")
	cmd.Flags().StringVar(&heads, "heads", "", "JSON output of an earlier run; its heads must still exist")
	cmd.Flags().BoolVar(&all, "all", false, "also run the hourly checks: charges against usage, and credits against payments")
	cmd.MarkFlagsMutuallyExclusive("all", "tenant")
	return cmd
}

// books is the result as data; --heads reads it back.
type books struct {
	Accounts   []book      `json:"accounts"`
	Entries    int64       `json:"entries"`
	Difference money.Minor `json:"difference_minor"`
	Faults     []Misfit    `json:"faults"`
	More       bool        `json:"more,omitempty"`
	// Of --all. Ticks is the number of ticks that were charged again, for comparison.
	Ticks    int                         `json:"ticks,omitzero"`
	Usage    []metering.Difference       `json:"usage_differences,omitempty"`
	Payments []billing.PaymentDifference `json:"payment_differences,omitempty"`
	Checks   []string                    `json:"differences,omitempty"` // both in sentences
}

type book struct {
	TenantName string `json:"tenant_name"`
	ledger.Chain
}

type Misfit struct {
	TenantName string `json:"tenant_name"`
	ledger.Fault
	Message string `json:"message"`
}

func ledgerVerify(ctx context.Context, a *output.Console, tenant, heads string, all bool) error {
	kept, err := readLedgerHeads(heads)
	if err != nil {
		return err
	}
	db, err := client.Database(ctx, a, "gpuaas-ledger")
	if err != nil {
		return err
	}
	defer db.Close()
	names, err := client.TenantNames(ctx, db)
	if err != nil {
		return err
	}
	only, err := client.TenantNamed(names, tenant)
	if err != nil {
		return err
	}
	r, err := (&ledger.Service{DB: db}).Verify(ctx, only, kept...)
	if err != nil {
		return err
	}
	if len(r.Chains) == 0 && r.OK() && tenant != "" {
		return errs.New(errs.NotFound, "tenant %s has no balance", tenant).Try("gpuaas ledger verify lists all accounts")
	}
	b := books{Entries: r.Entries, Difference: r.Difference, More: r.More}
	if all {
		if err := b.compare(ctx, a, db); err != nil {
			return err
		}
	}
	return showBooks(a, r, b, names)
}

// compare runs the checks of the hourly job that go beyond the ledger.
func (b *books) compare(ctx context.Context, a *output.Console, db *pgxpool.Pool) error {
	s := billing.Service{DB: db, Ledger: &ledger.Service{DB: db}, Metering: &metering.Service{DB: db}, Payments: &payment.Service{DB: db}, Clock: a.Clock}
	found, err := s.Compare(ctx)
	b.Ticks, b.Usage, b.Payments, b.Checks = found.Ticks, found.Usage, found.Payments, found.Faults()
	return err
}

func readLedgerHeads(path string) ([]ledger.Chain, error) {
	var b struct {
		Accounts []ledger.Chain `json:"accounts"`
	}
	err := client.ReadStored(path, "gpuaas ledger verify -o json", &b, func() bool {
		return slices.ContainsFunc(b.Accounts, func(c ledger.Chain) bool { return c.Head != "" })
	})
	return b.Accounts, err
}

func showBooks(a *output.Console, r ledger.Report, b books, names map[ids.Tenant]string) error {
	b.Accounts, b.Faults = make([]book, len(r.Chains)), make([]Misfit, len(r.Faults))
	wrong := map[uuid.UUID]ledger.Wrong{}
	for i, f := range r.Faults {
		b.Faults[i] = Misfit{TenantName: names[f.Tenant], Fault: f, Message: MisfitWords(f)}
		wrong[f.Account] = cmp.Or(wrong[f.Account], f.Wrong)
	}
	t := output.Table{Head: []string{"TENANT", "ACCOUNT", "ENTRIES", "BALANCE", "SEALS", "HEAD", "STATUS"}, Wide: []string{"ID", "CHAIN"}}
	for i, c := range r.Chains {
		b.Accounts[i] = book{TenantName: names[c.Tenant], Chain: c}
		status := output.SymbolGood + " whole"
		if w := wrong[c.Account]; w != "" {
			status = output.SymbolBad + " " + string(w)
		}
		t.Add("account/"+c.Account.String(), cmp.Or(names[c.Tenant], c.Tenant.String()), output.OrDash(c.Name), strconv.FormatInt(c.Entries, 10),
			money.Format(c.Currency, c.Balance), strconv.Itoa(c.Seals), output.OrDash(c.Head[:min(len(c.Head), 16)]), status, c.Account.String(), output.OrDash(c.Head))
	}
	document, err := output.Encode(b)
	if err != nil {
		return err
	}
	if err := a.Show(document, t); err != nil {
		return err
	}
	sayOpen(a, r)
	if b.Ticks > 0 {
		a.Notify("Charges of the last 48 hours were computed again from the usage: %s.", output.CountOf(b.Ticks, "tick"))
	}
	if len(b.Faults) == 0 {
		return differences(a, b.Checks)
	}
	return misfits(a, b.Faults)
}

// differences reports what the ledger does not share with usage and payments.
func differences(a *output.Console, all []string) error {
	if len(all) == 0 {
		return nil
	}
	for _, one := range all[1:] {
		a.Notify("%s %s", output.SymbolBad, one)
	}
	return &output.CommandError{
		Message: all[0], Code: output.CodeFindings, Try: "follow docs/runbooks/ledger-mismatch.md", Correlation: a.Correlation, Exit: output.ExitFailure,
	}
}

// sealedLedgerWithin is three times the period of sealing: no worker seals then.
const sealedLedgerWithin = 30 * time.Minute

func sayOpen(a *output.Console, r ledger.Report) {
	n, since := r.Unsealed()
	if n == 0 {
		return
	}
	a.Notify("Newer than the last seal: %d of the entries, the oldest of %s.", n, output.FormatTime(since))
	if a.Clock.Now().Sub(since) > sealedLedgerWithin {
		a.Notify("%s Sealing has stopped, or seals were deleted. Check that a server with the role work runs.", output.SymbolWarn)
	}
}

// misfits returns the first mismatch as an error, with the number of the others.
func misfits(a *output.Console, all []Misfit) error {
	f := all[0]
	whose := "the platform's account " + f.Name
	if f.Tenant != (ids.Tenant{}) {
		whose = "tenant " + cmp.Or(f.TenantName, f.Tenant.String()) + ", account " + f.Name
	}
	if f.Name == "" {
		whose = "account " + f.Account.String()
	}
	if len(all) > 1 {
		a.Notify("%s %d faults; -o json lists them.", output.SymbolBad, len(all))
	}
	return &output.CommandError{
		Message: whose + ": " + f.Message, Code: output.CodeFindings,
		Try: "do not change the database; follow docs/runbooks/ledger-mismatch.md", Correlation: a.Correlation, Exit: output.ExitFailure,
	}
}

func MisfitWords(f ledger.Fault) string {
	entries := fmt.Sprintf("entries %d to %d", f.After+1, f.UpTo)
	switch f.Wrong {
	case ledger.BalanceDiffers:
		return fmt.Sprintf("the stored balance differs by %d minor units from the sum of its entries", f.Minor)
	case ledger.SealedChanged:
		return fmt.Sprintf("%s, or their seal, were changed after %s; the seal's sum is %d minor units from theirs", entries, f.SealedAt.Format(time.RFC3339), f.Minor)
	case ledger.HeadLost:
		return fmt.Sprintf("the seal up to entry %d is not the stored one: entries and seals were rewritten or deleted", f.UpTo)
	case ledger.TransferUnbalanced:
		if f.UpTo == 0 {
			return fmt.Sprintf("transfer %s has no entries", f.Transfer)
		}
		return fmt.Sprintf("%s of transfer %s do not sum to zero in one currency; the sum is %d minor units", entries, f.Transfer, f.Minor)
	case ledger.TransferMissing:
		return fmt.Sprintf("%s belong to transfer %s, which is missing", entries, f.Transfer)
	case ledger.CurrencyDiffers:
		return fmt.Sprintf("entry %d is in another currency than the account", f.UpTo)
	case ledger.AccountMissing:
		return "there are entries, but the account is missing"
	}
	return string(f.Wrong)
}
