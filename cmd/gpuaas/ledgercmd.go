package main

import (
	"context"
	"net/http"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func newLedger(a *app) *cobra.Command {
	return group("ledger", "Every credit and every charge, and whether the record of them is whole", newLedgerList(a), newLedgerExport(a), newLedgerVerify(a))
}

// entriesAsked is which entries somebody wants to see.
type entriesAsked struct {
	period

	kind, allocation string
}

func (q *entriesAsked) flags(cmd *cobra.Command) {
	q.period.flags(cmd)
	cmd.Flags().StringVar(&q.kind, "kind", "", "only of this kind, like usage, topup or fault_credit")
	cmd.Flags().StringVar(&q.allocation, "allocation", "", "only about this one, by name or id")
}

// read is the parameters of the list; those of the export are the same.
func (q *entriesAsked) read(ctx context.Context, a *app, c *client) (p oapi.ListLedgerParams, err error) {
	if p.From, p.To, err = q.period.read(a); err != nil {
		return p, err
	}
	p.Kind = set(oapi.TransferKind(q.kind))
	p.AllocationId, err = c.ofAllocation(ctx, q.allocation)
	return p, err
}

// ofAllocation is the id of an allocation that may have been named.
func (c *client) ofAllocation(ctx context.Context, ref string) (*uuid.UUID, error) {
	if ref == "" {
		return nil, nil //nolint:nilnil // left out is a value: all of them
	}
	// By its id also one of a project that is not yours: its money is the tenant's.
	if id, _, ok := idOf(ref); ok {
		return &id, nil
	}
	found, err := c.find(ctx, ref)
	return &found.Value.Id, err
}

func newLedgerList(a *app) *cobra.Command {
	q := &entriesAsked{}
	cmd := &cobra.Command{
		Use: "list", Short: "The entries of your tenant's balance, oldest first", Args: cobra.NoArgs,
		Example: "  gpuaas ledger list --from 7d\n  gpuaas ledger list --allocation brave-otter",
	}
	q.flags(cmd)
	return lists(a, cmd, func(ctx context.Context, c *client, _ []string) (pager, error) {
		p, err := q.read(ctx, a, c)
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			p.Limit, p.Cursor = size, cursor
			return c.ListLedger(ctx, &p)
		}, err
	}, entryTable)
}

func newLedgerExport(a *app) *cobra.Command {
	q := &entriesAsked{}
	cmd := &cobra.Command{
		Use: "export", Short: "The same as CSV, all of it", Args: cobra.NoArgs,
		Example: "  gpuaas ledger export --from 2026-01-01 --to 2026-02-01 -f january.csv",
	}
	q.flags(cmd)
	return exports(a, cmd, typeCSV, func(ctx context.Context, c *client, _ []string) (sender, error) {
		p, err := q.read(ctx, a, c)
		return func(ctx context.Context) (*http.Response, error) {
			return c.ExportLedger(ctx, &oapi.ExportLedgerParams{From: p.From, To: p.To, Kind: p.Kind, AllocationId: p.AllocationId})
		}, err
	})
}

func entryTable(_ *app, all ...oapi.LedgerEntry) table {
	t := table{head: []string{"AT", "KIND", "AMOUNT", "ALLOCATION", "REFERENCE", "NOTE"}, wide: []string{"TRANSFER", "ID"}}
	for _, e := range all {
		t.add("entry/"+strconv.FormatInt(e.Id, 10), stamp(e.At), string(e.Kind), minor(e.Currency, e.AmountMinor), idCell(e.AllocationId), cell(e.Reference), cell(deref(e.Note)),
			e.TransferId.String(), strconv.FormatInt(e.Id, 10))
	}
	return t
}
