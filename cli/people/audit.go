package people

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewAudit(a *output.Console) *cobra.Command {
	return output.Group("audit", "Show and verify audit logs", newAuditList(a), newAuditExport(a), newAuditVerify(a))
}

// auditFilter contains the filters of the audit commands.
type auditFilter struct {
	all                           bool
	tenant, actor, action, target string
	fromText, toText              string
	from, to                      *time.Time
	tenantID                      *oapi.TenantID
}

func (q *auditFilter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&q.all, "all", false, "rows of the whole platform instead of your tenant; needs role admin")
	flags.StringVar(&q.tenant, "tenant", "", "with --all: of this tenant, by name or id")
	flags.StringVar(&q.actor, "actor", "", "actor, for example user:01990f3e-…")
	flags.StringVar(&q.action, "action", "", "action, for example project.create; a value that ends with a dot is a prefix")
	flags.StringVar(&q.target, "target", "", "URN or id of the resource")
	flags.StringVar(&q.fromText, "from", "", "not before: RFC 3339, a day, or how long ago, like 7d")
	flags.StringVar(&q.toText, "to", "", "before, in the same forms")
}

// read completes what was typed.
func (q *auditFilter) read(ctx context.Context, a *output.Console, c *client.Client) (err error) {
	if q.from, err = a.ParseTime("--from", q.fromText); err != nil {
		return err
	}
	if q.to, err = a.ParseTime("--to", q.toText); err != nil || q.tenant == "" {
		return err
	}
	if !q.all {
		return output.UsageError("--tenant is for --all: without it you see your own tenant")
	}
	t, err := AnyTenant(ctx, c, q.tenant)
	q.tenantID = &t.Id
	return err
}

func newAuditList(a *output.Console) *cobra.Command {
	q := &auditFilter{}
	cmd := &cobra.Command{
		Use: "list", Short: "List audit logs", Args: cobra.NoArgs,
		Example: "  gpuaas audit list --action allocation. --from 7d",
	}
	q.flags(cmd)
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, _ []string) (client.Pager, error) {
		if err := q.read(ctx, a, c); err != nil {
			return nil, err
		}
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			if q.all {
				return c.ListAdminAuditLogs(ctx, &oapi.ListAdminAuditLogsParams{
					Actor: output.PointerOrNil(q.actor), Action: output.PointerOrNil(q.action), Target: output.PointerOrNil(q.target), From: q.from, To: q.to, Tenant: q.tenantID, Limit: size, Cursor: cursor,
				})
			}
			return c.ListAuditLogs(ctx, &oapi.ListAuditLogsParams{
				Actor: output.PointerOrNil(q.actor), Action: output.PointerOrNil(q.action), Target: output.PointerOrNil(q.target), From: q.from, To: q.to, Limit: size, Cursor: cursor,
			})
		}, nil
	}, auditTable)
}

func auditTable(_ *output.Console, all ...oapi.AuditRecord) output.Table {
	t := output.Table{Head: []string{"TIME", "ACTION", "ACTOR", "TARGET"}, Wide: []string{"ADDRESS", "CLIENT", "CORRELATION", "TENANT", "ID"}}
	for _, r := range all {
		tenant := "-"
		if r.TenantId != nil {
			tenant = r.TenantId.String()
		}
		t.Add("audit/"+r.Id.String(), r.OccurredAt.UTC().Format(time.RFC3339), output.CellText(r.Action), output.CellText(r.Actor), output.CellText(r.Target),
			output.CellText(output.ValueOrZero(r.ClientAddress)), output.CellText(output.ValueOrZero(r.UserAgent)), output.CellText(r.CorrelationId), tenant, r.Id.String())
	}
	return t
}

func newAuditExport(a *output.Console) *cobra.Command {
	q := &auditFilter{}
	cmd := &cobra.Command{
		Use: "export", Short: "Export audit logs as CSV", Args: cobra.NoArgs,
		Example: "  gpuaas audit export --from 2026-01-01 --to 2026-02-01 -f january.csv",
	}
	q.flags(cmd)
	return client.ExportCommand(a, cmd, client.TypeCSV, func(ctx context.Context, c *client.Client, _ []string) (client.Sender, error) {
		err := q.read(ctx, a, c)
		return func(ctx context.Context) (*http.Response, error) { return openExport(ctx, c, q) }, err
	})
}

func openExport(ctx context.Context, c *client.Client, q *auditFilter) (*http.Response, error) {
	if q.all {
		return c.ExportAdminAuditLogs(ctx, &oapi.ExportAdminAuditLogsParams{
			Actor: output.PointerOrNil(q.actor), Action: output.PointerOrNil(q.action), Target: output.PointerOrNil(q.target), From: q.from, To: q.to, Tenant: q.tenantID,
		})
	}
	return c.ExportAuditLogs(ctx, &oapi.ExportAuditLogsParams{
		Actor: output.PointerOrNil(q.actor), Action: output.PointerOrNil(q.action), Target: output.PointerOrNil(q.target), From: q.from, To: q.to,
	})
}
