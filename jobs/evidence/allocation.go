package evidence

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// allocation collects the life of an allocation. No person approves one, so the part "approved" is empty.
func (d Deps) allocation(ctx context.Context, r evidence.Record) (*records, error) {
	id, err := ids.Parse[ids.Allocation](r.Subject)
	if err != nil {
		return nil, err
	}
	all, err := d.Allocations.Some(ctx, []uuid.UUID{id.UUID})
	if err != nil {
		return nil, err
	}
	a, found := all[id.UUID]
	if !found {
		return nil, errs.New(errs.NotFound, "no such allocation")
	}
	out := newRecords()
	out.add(bundle.Requested, d.viewAllocation(a))
	for _, collect := range []func(context.Context, *records, allocation.Allocation) error{d.declared, d.planned, d.executed, d.observed} {
		if err := collect(ctx, out, a); err != nil {
			return nil, err
		}
	}
	if err := d.charged(ctx, out, a); err != nil {
		return nil, err
	}
	return out, d.audited(ctx, out, a.Tenant, a.URN(d.Naming))
}

// declared adds the spec that was validated. A queued allocation has none before it is placed, and the object is deleted after
// the proof of the cleanup.
func (d Deps) declared(ctx context.Context, out *records, a allocation.Allocation) error {
	o, err := d.Desired.Last(ctx, desired.KindAllocation, a.Project.String(), a.Name)
	switch {
	case errs.CodeOf(err) == errs.NotFound, err == nil && o.UID.UUID != a.ID.UUID: // a later one has its name
		return nil
	case err != nil:
		return err
	}
	out.add(bundle.Validated, viewObject(o))
	return nil
}

func (d Deps) planned(ctx context.Context, out *records, a allocation.Allocation) error {
	actions, err := d.History.Since(ctx, []uuid.UUID{a.ID.UUID}, a.CreatedAt, most)
	addAll(out, bundle.Planned, "action", actions, viewAction)
	return err
}

func (d Deps) executed(ctx context.Context, out *records, a allocation.Allocation) error {
	if err := d.executedJobs(ctx, out, []uuid.UUID{a.ID.UUID}, a.CreatedAt); err != nil {
		return err
	}
	tasks, err := d.Tasks.Of(ctx, a.ID, most)
	slices.Reverse(tasks) // the oldest first
	addAll(out, bundle.Executed, "task", tasks, viewTask)
	return err
}

// observed adds the transitions, the last report and the proof of the release with the key of the node.
func (d Deps) observed(ctx context.Context, out *records, a allocation.Allocation) error {
	transitions, err := d.Allocations.Timeline(ctx, identity.Caller{Tenant: a.Tenant}, a.ID)
	if err != nil {
		return err
	}
	addAll(out, bundle.Observed, "transition", transitions, viewTransition)
	switch last, err := d.Observed.Allocation(ctx, a.ID); {
	case errs.CodeOf(err) == errs.NotFound:
	case err != nil:
		return err
	default:
		out.add(bundle.Observed, viewReport(last))
	}
	switch p, err := d.Managed.Proof(ctx, a.ID); {
	case errs.CodeOf(err) == errs.ProofMissing:
	case err != nil:
		return err
	default:
		out.add(bundle.Observed, proof{"proof", p.Document, p.PublicKey, p.ProvedAt.UTC()})
	}
	return nil
}

// charged adds the usage intervals, each with the signed reports that opened and closed it, and the ledger entries.
func (d Deps) charged(ctx context.Context, out *records, a allocation.Allocation) error {
	intervals, err := d.Metering.EvidenceOfAllocation(ctx, a.Tenant, a.ID, most)
	if err != nil {
		return err
	}
	addAll(out, bundle.Charged, "interval", intervals, func(i metering.Evidence) interval { return interval{"interval", i} })
	sum, last, err := d.Ledger.SumOf(ctx, a.Tenant, ledger.Filter{Allocation: a.ID}, most)
	if err != nil {
		return err
	}
	out.add(bundle.Charged, total{"total", sum, len(last)})
	for _, e := range last {
		out.add(bundle.Charged, viewEntry(e))
	}
	head, found, err := d.Ledger.Head(ctx, a.Tenant)
	if found {
		out.add(bundle.Charged, seal{"ledger_seal", head})
	}
	return err
}
