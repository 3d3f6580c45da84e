package evidence

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
)

// audited adds the audit rows about a resource, oldest first, and the last seal of their chain. A later bundle, or an export of
// the audit log, shows that the chain goes on from this seal. The rows of a tenant are those that it may read.
func (d Deps) audited(ctx context.Context, out *records, tenant ids.Tenant, target string) error {
	rows, err := d.Audit.Search(ctx, audit.Query{Tenant: tenant, Target: target, Limit: most})
	if err != nil {
		return err
	}
	slices.Reverse(rows)
	addAll(out, bundle.Audited, "audit", rows, viewAudit)
	head, found, err := d.Audit.Head(ctx, tenant)
	if found {
		out.add(bundle.Audited, auditSeal{"audit_seal", head})
	}
	return err
}

// executedJobs adds the River jobs of objects since a time, oldest first. River deletes completed ones after a day; plans and tasks
// stay longer. The arguments of a job name its object by one of these fields.
func (d Deps) executedJobs(ctx context.Context, out *records, of []uuid.UUID, since time.Time) error {
	var names []string
	for _, id := range of {
		for _, field := range []string{"allocation", "node", "object"} {
			names = append(names, fmt.Sprintf(`{"%s":"%s"}`, field, id))
		}
	}
	found, err := d.Queue.JobList(ctx, river.NewJobListParams().First(most).OrderBy(river.JobListOrderByID, river.SortOrderAsc).
		Where("created_at >= @since AND args @> ANY (@names::text[]::jsonb[])", river.NamedArgs{"since": since, "names": names}))
	if err != nil {
		return fmt.Errorf("reading the jobs of %d objects: %w", len(of), err)
	}
	addAll(out, bundle.Executed, "job", found.Jobs, viewJob)
	return nil
}
