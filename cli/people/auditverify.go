package people

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/platform/audit"
)

const auditText = `Computes the hash chain of each tenant's audit rows from the first row and compares it
with every seal. The command ends with 1 and names the first fault.

The command reads the database of DATABASE_URL, or else of the profile of gpuaas up. An
attacker who can write every table can also write matching seals. Store the output of
-o json in another place, and pass it to a later run with --heads.

Months that are only in the archive are verified from its files. Without --archive, the
folder is that of GPUAAS_AUDIT_ARCHIVE, or of gpuaas up. Without any, the command fails as
soon as a month was moved to the archive.`

func newAuditVerify(a *output.Console) *cobra.Command {
	var tenant, heads, archive string
	cmd := &cobra.Command{
		Use: "verify", Short: "Verify audit seals", Long: auditText, Args: cobra.NoArgs,
		Example: "  gpuaas audit verify -o json > heads.json\n  gpuaas audit verify --heads heads.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return auditVerify(cmd.Context(), a, tenant, heads, archive)
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "only this one, by name or id")
	cmd.Flags().StringVar(&heads, "heads", "", "JSON output of an earlier run; its heads must still exist")
	cmd.Flags().StringVar(&archive, "archive", "", "folder of the archive, whose files are compared with the seals")
	return cmd
}

// Chains is the response as data; --heads reads it.
type Chains struct {
	Chains        []chain   `json:"chains"`
	Unsealed      int64     `json:"unsealed"`
	UnsealedSince time.Time `json:"unsealed_since"`
	// Archived rows are only in the archive, whose files are in Archive if it was checked.
	Archived int64            `json:"archived,omitzero"`
	Exported int64            `json:"exported,omitzero"`
	Archive  []audit.Archived `json:"archive,omitempty"`
}

type chain struct {
	Name string `json:"name"`
	audit.Chain
}

func auditVerify(ctx context.Context, a *output.Console, tenant, heads, archive string) error {
	expected, err := readHeads(heads)
	if err != nil {
		return err
	}
	db, err := client.Database(ctx, a, "gpuaas-audit")
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
	s := &audit.Service{DB: db, Archive: archive}
	if tenant == "" && archive == "" { // the files contain the rows of all tenants
		s.Archive = client.AuditArchive(a)
	}
	r, err := s.Verify(ctx, only, expected)
	if err != nil {
		return err
	}
	c := Chains{Chains: make([]chain, len(r.Chains)), Unsealed: r.Unsealed, UnsealedSince: r.UnsealedSince, Archived: r.Archived, Exported: r.Exported}
	if s.Archive != "" {
		if c.Archive, err = s.VerifyArchive(ctx); err != nil {
			return err
		}
	}
	for i, one := range r.Chains {
		c.Chains[i] = chain{Name: names[one.Tenant], Chain: one}
	}
	return showChains(a, c)
}

func readHeads(path string) ([]audit.Chain, error) {
	var c struct {
		Chains []audit.Chain `json:"chains"`
	}
	err := client.ReadStored(path, "gpuaas audit verify -o json", &c, func() bool {
		return slices.ContainsFunc(c.Chains, func(c audit.Chain) bool { return c.Head != "" })
	})
	return c.Chains, err
}

func showChains(a *output.Console, c Chains) error {
	document, err := output.Encode(c)
	if err != nil {
		return err
	}
	t := output.Table{Head: []string{"TENANT", "ROWS", "SEALS", "HEAD", "STATUS"}, Wide: []string{"ID", "CHAIN"}}
	var broken *chain
	for i, one := range c.Chains {
		status := output.SymbolGood + " whole"
		if one.Fault != nil {
			status = output.SymbolBad + " " + string(one.Fault.Wrong)
			broken = cmp.Or(broken, &c.Chains[i])
		}
		short := one.Head[:min(len(one.Head), 16)]
		t.Add("tenant/"+one.Tenant.String(), output.OrDash(one.Name), strconv.FormatInt(one.Rows, 10), strconv.Itoa(one.Seals), output.OrDash(short), status,
			one.Tenant.String(), output.OrDash(one.Head))
	}
	if err := a.Show(document, t); err != nil {
		return err
	}
	sayUnsealed(a, c)
	if broken == nil {
		return archiveFault(a, c)
	}
	return &output.CommandError{
		Message: fmt.Sprintf("tenant %s: %s", cmp.Or(broken.Name, broken.Tenant.String()), faultWords(*broken.Fault)), Code: output.CodeFindings,
		Try: "do not change the database; follow docs/runbooks/audit-broken.md", Correlation: a.Correlation, Exit: output.ExitFailure,
	}
}

// archiveFault returns the first difference between the seals and the archive.
func archiveFault(a *output.Console, c Chains) error {
	message := ""
	for _, one := range c.Archive {
		if one.Fault != "" {
			message = cmp.Or(message, fmt.Sprintf("archive %s: %s", one.File, one.Fault))
		}
	}
	if c.Exported > 0 && len(c.Archive) == 0 {
		message = fmt.Sprintf("%d rows are only in the archive, and no folder is configured: repeat the command with --archive FOLDER", c.Exported)
	}
	if c.Archived != c.Exported {
		message = cmp.Or(message, fmt.Sprintf("%d sealed rows are missing in months that were exported with %d rows", c.Archived, c.Exported))
	}
	if message == "" {
		return nil
	}
	return &output.CommandError{
		Message: message, Code: output.CodeFindings, Try: "do not change the database or the archive; follow docs/runbooks/audit-broken.md",
		Correlation: a.Correlation, Exit: output.ExitFailure,
	}
}

// sealedWithin is ten times the period of sealing: no worker seals then.
const sealedWithin = 10 * time.Minute

func sayUnsealed(a *output.Console, c Chains) {
	if c.Unsealed == 0 {
		return
	}
	a.Notify("%s newer than the last seal, the oldest of %s.", output.CountOf(int(c.Unsealed), "row"), output.FormatTime(c.UnsealedSince))
	if a.Clock.Now().Sub(c.UnsealedSince) > sealedWithin {
		a.Notify("%s Sealing has stopped, or seals were deleted. Check that a server with the role work runs.", output.SymbolWarn)
	}
}

func faultWords(f audit.Fault) string {
	at := f.SealedAt.UTC().Format(time.RFC3339)
	switch f.Wrong {
	case audit.RowChanged:
		return fmt.Sprintf("row %s was changed after it was sealed at %s", f.Row, at)
	case audit.RowMissing:
		return fmt.Sprintf("row %s is missing; it was sealed at %s", f.Row, at)
	case audit.RowInserted:
		return fmt.Sprintf("row %s is older than a seal that does not include it (transactions up to %d)", f.Row, f.UpTo)
	case audit.SealBroken:
		return fmt.Sprintf("the seal of %s does not match: it was changed, or an earlier seal is missing", at)
	case audit.HeadLost:
		return "no seal leads to a stored head: rows and seals were rewritten or deleted"
	}
	return string(f.Wrong)
}
