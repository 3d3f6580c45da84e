package money

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

const ledgerText = `Derives every balance again from the first entry, and compares it with what is
told and with every seal; looks for transfers that do not sum to zero. It ends
with 1 and the tenant, the account and the entries of the first fault.

It reads the database itself: of DATABASE_URL, else that of gpuaas up by the
profile. Who may write every table may also write seals that fit; keep the
output of -o json elsewhere, and give it to a later run as --heads.`

func newLedgerVerify(a *output.Console) *cobra.Command {
	var tenant, heads string
	cmd := &cobra.Command{
		Use: "verify", Short: "Check that every balance follows from its entries, and that none was changed", Long: ledgerText, Args: cobra.NoArgs,
		Example: "  gpuaas ledger verify -o json > ledger.json\n  gpuaas ledger verify --tenant acme --heads ledger.json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return ledgerVerify(cmd.Context(), a, tenant, heads) },
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "only this one's balance, by name or id")
	cmd.Flags().StringVar(&heads, "heads", "", "what an earlier run printed as JSON: its heads must still be there")
	return cmd
}

// books is the answer as data; --heads takes it back.
type books struct {
	Accounts   []book      `json:"accounts"`
	Entries    int64       `json:"entries"`
	Difference money.Minor `json:"difference_minor"`
	Faults     []Misfit    `json:"faults"`
	More       bool        `json:"more,omitempty"`
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

func ledgerVerify(ctx context.Context, a *output.Console, tenant, heads string) error {
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
		return errs.New(errs.NotFound, "tenant %s has no balance", tenant).Try("gpuaas ledger verify shows all accounts")
	}
	return showBooks(a, r, names)
}

func readLedgerHeads(path string) ([]ledger.Chain, error) {
	var b struct {
		Accounts []ledger.Chain `json:"accounts"`
	}
	err := client.ReadKept(path, "gpuaas ledger verify -o json", &b, func() bool {
		return slices.ContainsFunc(b.Accounts, func(c ledger.Chain) bool { return c.Head != "" })
	})
	return b.Accounts, err
}

func showBooks(a *output.Console, r ledger.Report, names map[ids.Tenant]string) error {
	b := books{Accounts: make([]book, len(r.Chains)), Entries: r.Entries, Difference: r.Difference, Faults: make([]Misfit, len(r.Faults)), More: r.More}
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
	if len(b.Faults) == 0 {
		return nil
	}
	return misfits(a, b.Faults)
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
		a.Notify("%s Sealing has stopped, or seals were taken away: does a server with the role work run?", output.SymbolWarn)
	}
}

// misfits tells the first fault, and how many more there are.
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
	return &output.Failure{
		Message: whose + ": " + f.Message, Code: output.CodeFindings,
		Try: "keep the database as it is and follow docs/runbooks/ledger-mismatch.md", Correlation: a.Correlation, Exit: output.ExitFailure,
	}
}

func MisfitWords(f ledger.Fault) string {
	entries := fmt.Sprintf("entries %d to %d", f.After+1, f.UpTo)
	switch f.Wrong {
	case ledger.BalanceDiffers:
		return fmt.Sprintf("the balance that is told is %d minor units from the sum of its entries", f.Minor)
	case ledger.SealedChanged:
		return fmt.Sprintf("%s, or their seal, were changed after %s; the seal's sum is %d minor units from theirs", entries, f.SealedAt.Format(time.RFC3339), f.Minor)
	case ledger.HeadLost:
		return fmt.Sprintf("the seal up to entry %d is not the one that was kept: entries and seals were written anew, or taken away", f.UpTo)
	case ledger.TransferUnbalanced:
		if f.UpTo == 0 {
			return fmt.Sprintf("transfer %s has no entries", f.Transfer)
		}
		return fmt.Sprintf("%s of transfer %s do not sum to zero in one currency; the sum is %d minor units", entries, f.Transfer, f.Minor)
	case ledger.TransferMissing:
		return fmt.Sprintf("%s belong to transfer %s, which is gone", entries, f.Transfer)
	case ledger.CurrencyDiffers:
		return fmt.Sprintf("entry %d is in another currency than the account", f.UpTo)
	case ledger.AccountMissing:
		return "there are entries, and the account is gone"
	}
	return string(f.Wrong)
}
