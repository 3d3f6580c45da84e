package main

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func newAudit(a *app) *cobra.Command {
	return group("audit", "Who did what, and whether the record of it is whole", newAuditList(a), newAuditExport(a), newAuditVerify(a))
}

// auditAsked is which records somebody wants to see.
type auditAsked struct {
	all                           bool
	tenant, actor, action, target string
	fromText, toText              string
	from, to                      *time.Time
	tenantID                      *oapi.TenantID
}

func (q *auditAsked) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&q.all, "all", false, "of the whole platform and not only of your tenant; for admins")
	flags.StringVar(&q.tenant, "tenant", "", "with --all: of this tenant, by name or id")
	flags.StringVar(&q.actor, "actor", "", "who did it, like user:01990f3e-…")
	flags.StringVar(&q.action, "action", "", "what was done, like project.create; project. finds all that begin so")
	flags.StringVar(&q.target, "target", "", "to what: its resource name or its id")
	flags.StringVar(&q.fromText, "from", "", "not before: RFC 3339, a day, or how long ago, like 7d")
	flags.StringVar(&q.toText, "to", "", "before, in the same forms")
}

// read completes what was typed.
func (q *auditAsked) read(ctx context.Context, a *app, c *client) (err error) {
	if q.from, err = a.moment("--from", q.fromText); err != nil {
		return err
	}
	if q.to, err = a.moment("--to", q.toText); err != nil || q.tenant == "" {
		return err
	}
	if !q.all {
		return usage("--tenant is for --all: without it you see your own tenant")
	}
	t, err := c.anyTenant(ctx, q.tenant)
	q.tenantID = &t.Id
	return err
}

func newAuditList(a *app) *cobra.Command {
	q := &auditAsked{}
	cmd := &cobra.Command{
		Use: "list", Short: "What was done in your tenant, newest first", Args: cobra.NoArgs,
		Example: "  gpuaas audit list --action allocation. --from 7d",
	}
	q.flags(cmd)
	return lists(a, cmd, func(ctx context.Context, c *client, _ []string) (pager, error) {
		if err := q.read(ctx, a, c); err != nil {
			return nil, err
		}
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			if q.all {
				return c.ListAdminAuditLogs(ctx, &oapi.ListAdminAuditLogsParams{
					Actor: set(q.actor), Action: set(q.action), Target: set(q.target), From: q.from, To: q.to, Tenant: q.tenantID, Limit: size, Cursor: cursor,
				})
			}
			return c.ListAuditLogs(ctx, &oapi.ListAuditLogsParams{
				Actor: set(q.actor), Action: set(q.action), Target: set(q.target), From: q.from, To: q.to, Limit: size, Cursor: cursor,
			})
		}, nil
	}, auditTable)
}

func auditTable(_ *app, all ...oapi.AuditRecord) table {
	t := table{head: []string{"TIME", "ACTION", "ACTOR", "TARGET"}, wide: []string{"CORRELATION", "TENANT", "ID"}}
	for _, r := range all {
		tenant := "-"
		if r.TenantId != nil {
			tenant = r.TenantId.String()
		}
		t.add("audit/"+r.Id.String(), r.At.UTC().Format(time.RFC3339), cell(r.Action), cell(r.Actor), cell(r.Target), cell(r.CorrelationId), tenant, r.Id.String())
	}
	return t
}

func newAuditExport(a *app) *cobra.Command {
	q := &auditAsked{}
	cmd := &cobra.Command{
		Use: "export", Short: "The same as CSV, all of it; what breaks off ends with 1 and leaves no file", Args: cobra.NoArgs,
		Example: "  gpuaas audit export --from 2026-01-01 --to 2026-02-01 -f january.csv",
	}
	q.flags(cmd)
	return exports(a, cmd, typeCSV, func(ctx context.Context, c *client, _ []string) (sender, error) {
		err := q.read(ctx, a, c)
		return func(ctx context.Context) (*http.Response, error) { return c.openExport(ctx, q) }, err
	})
}

func (c *client) openExport(ctx context.Context, q *auditAsked) (*http.Response, error) {
	if q.all {
		return c.ExportAdminAuditLogs(ctx, &oapi.ExportAdminAuditLogsParams{
			Actor: set(q.actor), Action: set(q.action), Target: set(q.target), From: q.from, To: q.to, Tenant: q.tenantID,
		})
	}
	return c.ExportAuditLogs(ctx, &oapi.ExportAuditLogsParams{
		Actor: set(q.actor), Action: set(q.action), Target: set(q.target), From: q.from, To: q.to,
	})
}
