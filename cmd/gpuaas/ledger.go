package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

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

func newLedgerVerify(a *app) *cobra.Command {
	var tenant, heads string
	cmd := &cobra.Command{
		Use: "verify", Short: "Check that every balance follows from its entries, and that none was changed", Long: ledgerText, Args: cobra.NoArgs,
		Example: "  gpuaas ledger verify -o json > ledger.json\n  gpuaas ledger verify --tenant acme --heads ledger.json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.ledgerVerify(cmd.Context(), tenant, heads) },
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
	Faults     []misfit    `json:"faults"`
	More       bool        `json:"more,omitempty"`
}

type book struct {
	TenantName string `json:"tenant_name"`
	ledger.Chain
}

type misfit struct {
	TenantName string `json:"tenant_name"`
	ledger.Fault
	Message string `json:"message"`
}

func (a *app) ledgerVerify(ctx context.Context, tenant, heads string) error {
	kept, err := readLedgerHeads(heads)
	if err != nil {
		return err
	}
	db, err := a.database(ctx, "gpuaas-ledger")
	if err != nil {
		return err
	}
	defer db.Close()
	names, err := tenantNames(ctx, db)
	if err != nil {
		return err
	}
	only, err := tenantNamed(names, tenant)
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
	return a.showBooks(r, names)
}

func readLedgerHeads(path string) ([]ledger.Chain, error) {
	var b struct {
		Accounts []ledger.Chain `json:"accounts"`
	}
	err := readKept(path, "gpuaas ledger verify -o json", &b, func() bool {
		return slices.ContainsFunc(b.Accounts, func(c ledger.Chain) bool { return c.Head != "" })
	})
	return b.Accounts, err
}

func (a *app) showBooks(r ledger.Report, names map[ids.Tenant]string) error {
	b := books{Accounts: make([]book, len(r.Chains)), Entries: r.Entries, Difference: r.Difference, Faults: make([]misfit, len(r.Faults)), More: r.More}
	wrong := map[uuid.UUID]ledger.Wrong{}
	for i, f := range r.Faults {
		b.Faults[i] = misfit{TenantName: names[f.Tenant], Fault: f, Message: misfitWords(f)}
		wrong[f.Account] = cmp.Or(wrong[f.Account], f.Wrong)
	}
	t := table{head: []string{"TENANT", "ACCOUNT", "ENTRIES", "BALANCE", "SEALS", "HEAD", "STATUS"}, wide: []string{"ID", "CHAIN"}}
	for i, c := range r.Chains {
		b.Accounts[i] = book{TenantName: names[c.Tenant], Chain: c}
		status := symbolGood + " whole"
		if w := wrong[c.Account]; w != "" {
			status = symbolBad + " " + string(w)
		}
		t.add("account/"+c.Account.String(), cmp.Or(names[c.Tenant], c.Tenant.String()), orDash(c.Name), strconv.FormatInt(c.Entries, 10),
			money.Format(c.Currency, c.Balance), strconv.Itoa(c.Seals), orDash(c.Head[:min(len(c.Head), 16)]), status, c.Account.String(), orDash(c.Head))
	}
	document, err := encode(b)
	if err != nil {
		return err
	}
	if err := a.show(document, t); err != nil {
		return err
	}
	a.sayOpen(r)
	if len(b.Faults) == 0 {
		return nil
	}
	return a.misfits(b.Faults)
}

// sealedLedgerWithin is three times the period of sealing: no worker seals then.
const sealedLedgerWithin = 30 * time.Minute

func (a *app) sayOpen(r ledger.Report) {
	n, since := r.Unsealed()
	if n == 0 {
		return
	}
	a.say("Newer than the last seal: %d of the entries, the oldest of %s.", n, stamp(since))
	if a.Clock.Now().Sub(since) > sealedLedgerWithin {
		a.say("%s Sealing has stopped, or seals were taken away: does a server with the role work run?", symbolWarn)
	}
}

// misfits tells the first fault, and how many more there are.
func (a *app) misfits(all []misfit) error {
	f := all[0]
	whose := "the platform's account " + f.Name
	if f.Tenant != (ids.Tenant{}) {
		whose = "tenant " + cmp.Or(f.TenantName, f.Tenant.String()) + ", account " + f.Name
	}
	if f.Name == "" {
		whose = "account " + f.Account.String()
	}
	if len(all) > 1 {
		a.say("%s %d faults; -o json lists them.", symbolBad, len(all))
	}
	return &failure{
		Message: whose + ": " + f.Message, Code: codeFindings,
		Try: "keep the database as it is and follow docs/runbooks/ledger-mismatch.md", Correlation: a.Correlation, Exit: exitFailure,
	}
}

func misfitWords(f ledger.Fault) string {
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
