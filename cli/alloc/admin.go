package alloc

import (
	"context"
	"net/http"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// NewAdminAlloc returns the commands for operators about the allocations of all tenants.
func NewAdminAlloc(a *output.Console) *cobra.Command {
	return output.Group("alloc", "Manage allocations of all tenants", newAdminAllocList(a), newAdminAllocGet(a), newAdminAllocExport(a), newForceRelease(a))
}

// choice contains the flags that select allocations of all tenants.
type choice struct{ status, sku, tenant, node, since, before string }

func (f *choice) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.status, "status", "", "only in this state, like release_failed")
	flags.StringVar(&f.sku, "sku", "", "only of this SKU")
	flags.StringVar(&f.tenant, "tenant", "", "only of the tenant with this id")
	flags.StringVar(&f.node, "node", "", "only on this node")
	flags.StringVar(&f.since, "since", "", "requested at this time or later: RFC 3339, a day, or how long ago, like 7d")
	flags.StringVar(&f.before, "before", "", "requested before this time, in the same forms")
}

func (f *choice) read(a *output.Console) (p oapi.ExportAdminAllocationsParams, err error) {
	p.Status, p.Sku, p.Node = output.PointerOrNil(oapi.AllocationStatus(f.status)), output.PointerOrNil(f.sku), output.PointerOrNil(f.node)
	if f.tenant != "" {
		id, err := uuid.Parse(f.tenant)
		if err != nil {
			return p, output.UsageError("--tenant: %q is not an id; gpuaas admin tenants lists them", f.tenant)
		}
		p.Tenant = &id
	}
	if p.CreatedSince, err = a.ParseTime("--since", f.since); err != nil {
		return p, err
	}
	p.CreatedBefore, err = a.ParseTime("--before", f.before)
	return p, err
}

func newAdminAllocList(a *output.Console) *cobra.Command {
	f := &choice{}
	cmd := &cobra.Command{
		Use: "list", Short: "List allocations of all tenants", Args: cobra.NoArgs,
		Example: "  gpuaas admin alloc list --status release_failed\n  gpuaas admin alloc list --node gpu-07 --before 30d",
	}
	f.flags(cmd)
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		p, err := f.read(a)
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListAdminAllocations(ctx, &oapi.ListAdminAllocationsParams{
				Limit: size, Cursor: cursor, Status: p.Status, Sku: p.Sku, Tenant: p.Tenant, Node: p.Node, CreatedSince: p.CreatedSince, CreatedBefore: p.CreatedBefore,
			})
		}, err
	}, adminTable)
}

func newAdminAllocExport(a *output.Console) *cobra.Command {
	f := &choice{}
	cmd := &cobra.Command{
		Use: "export", Short: "Export allocations as CSV", Args: cobra.NoArgs,
		Example: "  gpuaas admin alloc export --since 30d -f allocations.csv",
	}
	f.flags(cmd)
	return client.ExportCommand(a, cmd, client.TypeCSV, func(_ context.Context, c *client.Client, _ []string) (client.Sender, error) {
		p, err := f.read(a)
		return func(ctx context.Context) (*http.Response, error) { return c.ExportAdminAllocations(ctx, &p) }, err
	})
}

func newAdminAllocGet(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Show an allocation of any tenant", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			id, err := allocationID(args[0])
			if err != nil {
				return err
			}
			found, err := client.Send[oapi.Allocation](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) { return c.GetAdminAllocation(ctx, id) })
			if err != nil {
				return err
			}
			return a.Show(found.Raw, adminTable(a, found.Value))
		},
	}
}

// allocationID reads the id of an allocation. Names are unique in a project only.
func allocationID(text string) (uuid.UUID, error) {
	if id, err := uuid.Parse(text); err == nil {
		return id, nil
	}
	f := output.UsageError("%q is not the id of an allocation", text)
	f.Try = "gpuaas admin alloc list -o wide prints the ids"
	return uuid.UUID{}, f
}

func newForceRelease(a *output.Console) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "force-release ID", Short: "Force the release of an allocation", Args: cobra.ExactArgs(1),
		Long: `Starts a release again that failed or that is overdue, or releases an allocation whose node
does not report. The slots stay out of sale until the node proves them clean.`,
		Example: "  gpuaas admin alloc force-release 01990f41-2b00-7a55-9c3e-0a1b2c3d4e5f --reason \"the node is back\"",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, which the tenant can read; required")
	_ = cmd.MarkFlagRequired("reason")
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		id, err := allocationID(args[0])
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.ForceReleaseAllocation(ctx, id, nil, oapi.Reason{Reason: reason}, once)
		}, err
	}, adminTable)
}

func adminTable(a *output.Console, all ...oapi.Allocation) output.Table {
	t := output.Table{
		Head: []string{"NAME", "TENANT", "NODE", "STATUS", "SKU", "GPUS", "COST", "AGE", "MESSAGE"},
		Wide: []string{"REGION", "REASON", "ID"},
	}
	for _, one := range all {
		t.Add("allocation/"+one.Name, one.Name, output.OrDash(output.ValueOrZero(one.TenantName)), output.OrDash(output.ValueOrZero(one.NodeName)),
			string(one.Status), one.Sku, strconv.Itoa(one.Gpus), output.Amount(one.Cost), output.Age(a.Clock.Now(), one.CreatedAt),
			output.OrDash(output.ValueOrZero(one.Message)), output.OrDash(one.Region), output.OrDash(output.ValueOrZero(one.Reason)), one.Id.String())
	}
	return t
}
