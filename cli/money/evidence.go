package money

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	openapi_types "github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/billing"
)

const evidenceText = `Shows what the charges of one UTC day consist of: the chained ledger entries with their
seals, the usage intervals with the observations that the nodes have signed, and the records
of stored bytes. Each charge is computed again from intervals and records, the chain from the
entries, and each signature is verified. The command ends with 1 at a difference.

With --verify, the command reads a stored document (-o json) and needs no server. The first
document of a node shows its key; compare the key and the last seal with earlier documents.`

func newLedgerEvidence(a *output.Console) *cobra.Command {
	var day, file string
	cmd := &cobra.Command{
		Use: "evidence", Short: "Show and verify billing evidence", Long: evidenceText, Args: cobra.NoArgs,
		Example: "  gpuaas ledger evidence --day 2026-01-05 -o json > evidence.json\n  gpuaas ledger evidence --verify evidence.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := readEvidence(cmd.Context(), a, day, file)
			if err != nil {
				return err
			}
			return showEvidence(a, text)
		},
	}
	cmd.Flags().StringVar(&day, "day", "", "day in UTC, like 2026-01-05; today without it")
	cmd.Flags().StringVar(&file, "verify", "", "JSON output of an earlier run, instead of the server's")
	cmd.MarkFlagsMutuallyExclusive("day", "verify")
	return cmd
}

// readEvidence returns the document of a file or of the server.
func readEvidence(ctx context.Context, a *output.Console, day, file string) ([]byte, error) {
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, errs.Invalid("verify", "%v", err)
		}
		return text, nil
	}
	var p oapi.GetBillingEvidenceParams
	if day != "" {
		at, err := time.Parse(time.DateOnly, day)
		if err != nil {
			return nil, errs.Invalid("day", "%q is not a day like 2026-01-05", day)
		}
		p.Day = &openapi_types.Date{Time: at}
	}
	c, err := client.Connect(a)
	if err != nil {
		return nil, err
	}
	r, err := client.Send[oapi.BillingEvidence](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetBillingEvidence(ctx, &p) })
	return r.Raw, err
}

func showEvidence(a *output.Console, text []byte) error {
	var e billing.Evidence
	if err := json.Unmarshal(text, &e); err != nil || e.From.IsZero() {
		return errs.Invalid("verify", "the file is not the output of gpuaas ledger evidence -o json")
	}
	c := billing.CheckEvidence(e)
	t := output.Table{Head: []string{"DAY", "ENTRIES", "CHARGES", "INTERVALS", "SIGNED", "UNSIGNED", "STATUS"}}
	status := output.SymbolGood + " whole"
	if len(c.Faults) > 0 {
		status = output.SymbolBad + " " + output.CountOf(len(c.Faults), "difference")
	}
	t.Add("evidence/"+e.From.Format(time.DateOnly), e.From.Format(time.DateOnly), strconv.Itoa(c.Entries), strconv.Itoa(c.Charges), strconv.Itoa(len(e.Intervals)),
		strconv.Itoa(c.Signed), strconv.Itoa(c.Unsigned), status)
	if err := a.Show(text, t); err != nil {
		return err
	}
	if c.Unsealed > 0 {
		a.Notify("Newer than the last seal: %s.", output.CountOf(int(c.Unsealed), "ledger row"))
	}
	for _, f := range c.Faults {
		a.Notify("%s %s", output.SymbolBad, sentence(f))
	}
	if len(c.Faults) == 0 {
		return nil
	}
	return &output.CommandError{
		Message: sentence(c.Faults[0]), Code: output.CodeFindings, Try: "store the document and follow docs/runbooks/ledger-mismatch.md",
		Correlation: a.Correlation, Exit: output.ExitFailure,
	}
}

func sentence(f billing.EvidenceFault) string {
	switch {
	case f.Entry != 0:
		return fmt.Sprintf("entry %d: %s", f.Entry, f.Message)
	case f.Project != (ids.Project{}):
		return fmt.Sprintf("project %s: %s", f.Project, f.Message)
	default:
		return fmt.Sprintf("allocation %s: %s", f.Allocation, f.Message)
	}
}
