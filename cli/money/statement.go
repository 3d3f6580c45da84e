package money

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewStatement(a *output.Console) *cobra.Command {
	return output.Group("statement", "Show monthly statements", newStatementList(a), newStatementShow(a))
}

func newStatementList(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List statements", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListStatements(ctx, &oapi.ListStatementsParams{Limit: size, Cursor: cursor})
		}, nil
	}, monthTable)
}

func monthTable(_ *output.Console, all ...oapi.StatementTotals) output.Table {
	t := output.Table{Head: []string{"MONTH", "OPENING", "TOP-UPS", "USE", "FILES", "CREDITS", "REFUNDS", "CORRECTIONS", "CLOSING", "STATE"}}
	for _, s := range all {
		cells := []string{s.Month}
		for _, m := range []int64{s.OpeningMinor, s.TopupsMinor, s.UsageMinor, s.StorageMinor, s.CreditsMinor, s.RefundsMinor, s.AdjustmentsMinor, s.ClosingMinor} {
			cells = append(cells, output.ParseAmount(s.Currency, m))
		}
		t.Add("statement/"+s.Month, append(cells, final(s.Final))...)
	}
	return t
}

func final(yes bool) string {
	if yes {
		return output.SymbolGood + " final"
	}
	return output.SymbolBusy + " open"
}

// showing contains the flags of statement show.
type showing struct {
	file      string
	csv, open bool
}

func newStatementShow(a *output.Console) *cobra.Command {
	s := showing{}
	cmd := &cobra.Command{
		Use: "show [MONTH]", Short: "Show a statement", Args: cobra.MaximumNArgs(1),
		Example: "  gpuaas statement show 2026-01\n  gpuaas statement show 2026-01 --csv -f january.csv\n  gpuaas statement show 2026-01 --open",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			month := a.Clock.Now().UTC().Format("2006-01")
			if len(args) > 0 {
				month = args[0]
			}
			switch {
			case s.csv:
				return client.SaveExport(cmd.Context(), a, c, s.file, client.TypeCSV, func(ctx context.Context) (*http.Response, error) { return c.ExportStatement(ctx, month) })
			case s.open:
				return openStatement(cmd.Context(), a, c, month, s.file)
			case s.file != "":
				return client.SaveExport(cmd.Context(), a, c, s.file, typePage, statementPage(c, month))
			}
			return showStatement(cmd.Context(), a, c, month)
		},
	}
	cmd.Flags().BoolVar(&s.csv, "csv", false, "its lines as CSV, with amounts in the minor unit")
	cmd.Flags().BoolVar(&s.open, "open", false, "open the statement as a printable page in the browser")
	cmd.Flags().StringVarP(&s.file, "file", "f", "", "file for the page, or with --csv for the lines; - is stdout")
	cmd.MarkFlagsMutuallyExclusive("csv", "open")
	return cmd
}

const typePage = "text/html"

func statementPage(c *client.Client, month string) client.Sender {
	return func(ctx context.Context) (*http.Response, error) { return c.GetStatementPage(ctx, month) }
}

// openStatement opens the page from a local file: a browser has no token to fetch it, and a URL
// must never contain one.
func openStatement(ctx context.Context, a *output.Console, c *client.Client, month, file string) error {
	if file == "" {
		dir, err := os.MkdirTemp("", "gpuaas-statement-") // 0700: only the user may read the page
		if err != nil {
			return fmt.Errorf("making a folder for the page: %w", err)
		}
		file = filepath.Join(dir, "page.html")
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("finding %s: %w", file, err)
	}
	if err := client.SaveExport(ctx, a, c, file, typePage, statementPage(c, month)); err != nil {
		return err
	}
	a.Visit((&url.URL{Scheme: "file", Path: file}).String(), a.Viewer(), "Open this page in a browser:")
	return nil
}

func showStatement(ctx context.Context, a *output.Console, c *client.Client, month string) error {
	got, err := client.Send[oapi.Statement](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetStatement(ctx, month) })
	if err != nil {
		return err
	}
	s := got.Value
	if a.Data() || a.Format() == "name" {
		return a.Show(got.Raw, output.Table{Names: []string{"statement/" + s.Month}})
	}
	facts := [][2]string{
		{"Statement", s.Month + " of " + output.CellText(s.Tenant.Name) + ", " + final(s.Final)},
		{"Period", output.FormatTime(s.From) + " to " + output.FormatTime(s.To)},
		{"Opening", output.ParseAmount(s.Currency, s.OpeningMinor)},
		{"Top-ups", output.ParseAmount(s.Currency, s.TopupsMinor)},
		{"Use", output.ParseAmount(s.Currency, s.UsageMinor)},
		{"Files", output.ParseAmount(s.Currency, s.StorageMinor)},
		{"Credits", output.ParseAmount(s.Currency, s.CreditsMinor)},
		{"Refunds", output.ParseAmount(s.Currency, s.RefundsMinor)},
		{"Corrections", output.ParseAmount(s.Currency, s.AdjustmentsMinor)},
		{"Closing", output.ParseAmount(s.Currency, s.ClosingMinor)},
	}
	used := output.Table{Head: []string{"PROJECT", "SKU", "GPUS", "ALLOCATION", "USED", "CHARGED", "CREDITED", "COST"}}
	for _, u := range s.Usage {
		used.Add("", output.CellText(u.Project), u.Sku, strconv.Itoa(u.Gpus), u.AllocationId.String(), output.FormatSeconds(u.Seconds), output.ParseAmount(s.Currency, u.GrossMinor),
			output.OrDash(none(s.Currency, u.CreditedMinor)), output.ParseAmount(s.Currency, u.CostMinor))
	}
	stored := output.Table{Head: []string{"PROJECT", "BYTE-SECONDS", "COST"}}
	for _, u := range s.Storage {
		stored.Add("", output.CellText(u.Project), output.CellText(u.ByteSeconds), output.ParseAmount(s.Currency, u.CostMinor))
	}
	moved := output.Table{Head: []string{"AT", "KIND", "AMOUNT", "REFERENCE", "NOTE"}}
	for _, m := range s.Movements {
		moved.Add("", output.FormatTime(m.OccurredAt), string(m.Kind), output.ParseAmount(s.Currency, m.AmountMinor), output.CellText(m.Reference), output.CellText(output.ValueOrZero(m.Note)))
	}
	return a.Describe("statement/"+s.Month, map[string]json.RawMessage{"statement": got.Raw},
		output.Section{Fields: facts}, output.Section{Title: "Use:", Table: used}, output.Section{Title: "Files:", Table: stored}, output.Section{Title: "All else:", Table: moved})
}
