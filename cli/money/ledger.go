package money

import (
	"context"
	"net/http"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/cli/people"
)

func NewLedger(a *output.Console) *cobra.Command {
	return output.Group("ledger", "Show and verify the ledger", newLedgerList(a), newLedgerExport(a), newLedgerEvidence(a), newLedgerVerify(a))
}

// entryFilter contains the filters of the ledger commands.
type entryFilter struct {
	period

	kind, allocation string
}

func (q *entryFilter) flags(cmd *cobra.Command) {
	q.period.flags(cmd)
	cmd.Flags().StringVar(&q.kind, "kind", "", "only of this kind, like usage, topup or fault_credit")
	cmd.Flags().StringVar(&q.allocation, "allocation", "", "only about this one, by name or id")
}

// read is the parameters of the list; those of the export are the same.
func (q *entryFilter) read(ctx context.Context, a *output.Console, c *client.Client) (p oapi.ListLedgerParams, err error) {
	if p.From, p.To, err = q.period.read(a); err != nil {
		return p, err
	}
	p.Kind = output.PointerOrNil(oapi.TransferKind(q.kind))
	if p.AllocationId, err = ofAllocation(ctx, c, q.allocation); err != nil || a.Project == "" {
		return p, err
	}
	project, err := people.ProjectOf(ctx, c, []string{a.Project})
	p.ProjectId = &project.Value.Id
	return p, err
}

// ofAllocation is the id of an allocation that may have been named.
func ofAllocation(ctx context.Context, c *client.Client, ref string) (*uuid.UUID, error) {
	if ref == "" {
		return nil, nil //nolint:nilnil // left out is a value: all of them
	}
	// By its id also one of a project that is not yours: its money is the tenant's.
	if id, _, ok := output.IdOf(ref); ok {
		return &id, nil
	}
	found, err := c.Find(ctx, ref)
	return &found.Value.Id, err
}

func newLedgerList(a *output.Console) *cobra.Command {
	q := &entryFilter{}
	cmd := &cobra.Command{
		Use: "list", Short: "List ledger entries", Args: cobra.NoArgs,
		Example: "  gpuaas ledger list --from 7d\n  gpuaas ledger list --allocation brave-otter\n  gpuaas ledger list --project web",
	}
	q.flags(cmd)
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, _ []string) (client.Pager, error) {
		p, err := q.read(ctx, a, c)
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			p.Limit, p.Cursor = size, cursor
			return c.ListLedger(ctx, &p)
		}, err
	}, entryTable)
}

func newLedgerExport(a *output.Console) *cobra.Command {
	q := &entryFilter{}
	cmd := &cobra.Command{
		Use: "export", Short: "Export ledger entries as CSV", Args: cobra.NoArgs,
		Example: "  gpuaas ledger export --from 2026-01-01 --to 2026-02-01 -f january.csv",
	}
	q.flags(cmd)
	return client.ExportCommand(a, cmd, client.TypeCSV, func(ctx context.Context, c *client.Client, _ []string) (client.Sender, error) {
		p, err := q.read(ctx, a, c)
		return func(ctx context.Context) (*http.Response, error) {
			return c.ExportLedger(ctx, &oapi.ExportLedgerParams{From: p.From, To: p.To, Kind: p.Kind, AllocationId: p.AllocationId, ProjectId: p.ProjectId})
		}, err
	})
}

func entryTable(_ *output.Console, all ...oapi.LedgerEntry) output.Table {
	t := output.Table{
		Head: []string{"AT", "KIND", "AMOUNT", "ALLOCATION", "PROJECT", "REFERENCE", "NOTE"}, Wide: []string{"SKU", "ALLOCATION ID", "PROJECT ID", "TRANSFER", "ID"},
	}
	for _, e := range all {
		allocation, project := "-", "-"
		if e.AllocationId != nil {
			allocation = nameOr(e.AllocationName, *e.AllocationId)
		}
		if e.ProjectId != nil {
			project = nameOr(e.ProjectName, *e.ProjectId)
		}
		t.Add("entry/"+strconv.FormatInt(e.Id, 10), output.FormatTime(e.OccurredAt), string(e.Kind), output.ParseAmount(e.Currency, e.AmountMinor), allocation, project, output.CellText(e.Reference), output.CellText(output.ValueOrZero(e.Note)),
			output.OrDash(output.CellText(output.ValueOrZero(e.Sku))), IdCell(e.AllocationId), IdCell(e.ProjectId), e.TransferId.String(), strconv.FormatInt(e.Id, 10))
	}
	return t
}
