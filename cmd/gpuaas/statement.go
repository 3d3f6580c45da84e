package main

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
)

func newStatement(a *app) *cobra.Command {
	return group("statement", "The money of a month: what came in, what was used, what is left", newStatementList(a), newStatementShow(a))
}

func newStatementList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "One line for each month, newest first", Args: cobra.NoArgs}
	return lists(a, cmd, func(_ context.Context, c *client, _ []string) (pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListStatements(ctx, &oapi.ListStatementsParams{Limit: size, Cursor: cursor})
		}, nil
	}, monthTable)
}

func monthTable(_ *app, all ...oapi.StatementTotals) table {
	t := table{head: []string{"MONTH", "OPENING", "TOP-UPS", "USE", "CREDITS", "REFUNDS", "CORRECTIONS", "CLOSING", "STATE"}}
	for _, s := range all {
		cells := []string{s.Month}
		for _, m := range []int64{s.OpeningMinor, s.TopupsMinor, s.UsageMinor, s.CreditsMinor, s.RefundsMinor, s.AdjustmentsMinor, s.ClosingMinor} {
			cells = append(cells, minor(s.Currency, m))
		}
		t.add("statement/"+s.Month, append(cells, final(s.Final))...)
	}
	return t
}

func final(yes bool) string {
	if yes {
		return symbolGood + " final"
	}
	return symbolBusy + " open"
}

// showing is how somebody wants a statement.
type showing struct {
	file      string
	csv, open bool
}

func newStatementShow(a *app) *cobra.Command {
	s := showing{}
	cmd := &cobra.Command{
		Use: "show [MONTH]", Short: "The statement of a month like 2026-01, in UTC; of this one when left out", Args: cobra.MaximumNArgs(1),
		Example: "  gpuaas statement show 2026-01\n  gpuaas statement show 2026-01 --csv -f january.csv\n  gpuaas statement show 2026-01 --open",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			month := a.Clock.Now().UTC().Format("2006-01")
			if len(args) > 0 {
				month = args[0]
			}
			switch {
			case s.csv:
				return a.copies(cmd.Context(), c, s.file, typeCSV, func(ctx context.Context) (*http.Response, error) { return c.ExportStatement(ctx, month) })
			case s.open:
				return a.openStatement(cmd.Context(), c, month, s.file)
			case s.file != "":
				return a.copies(cmd.Context(), c, s.file, typePage, c.statementPage(month))
			}
			return a.showStatement(cmd.Context(), c, month)
		},
	}
	cmd.Flags().BoolVar(&s.csv, "csv", false, "its lines as CSV, with amounts in the minor unit")
	cmd.Flags().BoolVar(&s.open, "open", false, "in the browser, as a page made to be printed")
	cmd.Flags().StringVarP(&s.file, "file", "f", "", "write the page here, or with --csv the lines; - is stdout")
	cmd.MarkFlagsMutuallyExclusive("csv", "open")
	return cmd
}

const typePage = "text/html"

func (c *client) statementPage(month string) sender {
	return func(ctx context.Context) (*http.Response, error) { return c.GetStatementPage(ctx, month) }
}

// openStatement shows the page from a file of this machine: a browser has no token
// to fetch it with, and an address must never carry one.
func (a *app) openStatement(ctx context.Context, c *client, month, file string) error {
	if file == "" {
		dir, err := os.MkdirTemp("", "gpuaas-statement-") // 0700: the page is nobody else's
		if err != nil {
			return fmt.Errorf("making a folder for the page: %w", err)
		}
		file = filepath.Join(dir, "page.html")
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("finding %s: %w", file, err)
	}
	if err := a.copies(ctx, c, file, typePage, c.statementPage(month)); err != nil {
		return err
	}
	a.visit((&url.URL{Scheme: "file", Path: file}).String(), a.viewer(), "Open this page in a browser:")
	return nil
}

func (a *app) showStatement(ctx context.Context, c *client, month string) error {
	got, err := ask[oapi.Statement](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetStatement(ctx, month) })
	if err != nil {
		return err
	}
	s := got.Value
	if a.data() || a.format() == "name" {
		return a.show(got.Raw, table{names: []string{"statement/" + s.Month}})
	}
	facts := [][2]string{
		{"Statement", s.Month + " of " + cell(s.Tenant.Name) + ", " + final(s.Final)},
		{"Period", stamp(s.From) + " to " + stamp(s.To)},
		{"Opening", minor(s.Currency, s.OpeningMinor)},
		{"Top-ups", minor(s.Currency, s.TopupsMinor)},
		{"Use", minor(s.Currency, s.UsageMinor)},
		{"Credits", minor(s.Currency, s.CreditsMinor)},
		{"Refunds", minor(s.Currency, s.RefundsMinor)},
		{"Corrections", minor(s.Currency, s.AdjustmentsMinor)},
		{"Closing", minor(s.Currency, s.ClosingMinor)},
	}
	used := table{head: []string{"PROJECT", "SKU", "GPUS", "ALLOCATION", "USED", "CHARGED", "CREDITED", "COST"}}
	for _, u := range s.Usage {
		used.add("", cell(u.Project), u.Sku, strconv.Itoa(u.Gpus), u.AllocationId.String(), lasting(u.Seconds), minor(s.Currency, u.GrossMinor),
			orDash(none(s.Currency, u.CreditedMinor)), minor(s.Currency, u.CostMinor))
	}
	moved := table{head: []string{"AT", "KIND", "AMOUNT", "REFERENCE", "NOTE"}}
	for _, m := range s.Movements {
		moved.add("", stamp(m.At), string(m.Kind), minor(s.Currency, m.AmountMinor), cell(m.Reference), cell(deref(m.Note)))
	}
	return a.describe("statement/"+s.Month, map[string]json.RawMessage{"statement": got.Raw},
		section{facts: facts}, section{title: "Use:", table: used}, section{title: "All else:", table: moved})
}
