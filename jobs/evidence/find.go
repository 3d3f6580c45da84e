package evidence

import (
	"context"
	"strconv"
	"time"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
	"github.com/gpuaas/gpuaas/policies"
)

const (
	// buildAfter is the time after which a bundle of a change is built. Nodes have executed most tasks of a change by then.
	buildAfter = time.Minute
	// overlap is more than the duration of a transaction that applies a change. A change has the time at which its transaction
	// has begun, and may appear after changes with a later time.
	overlap = time.Hour
	// pageSize is the number of changes that are read at once.
	pageSize = 200
)

type findEvidence struct {
	river.WorkerDefaults[evidence.FindEvidence]

	d Deps
}

// Work adds a pending bundle for each applied revision, and each approved or applied plan, that has none, and the jobs of pending
// bundles.
func (w *findEvidence) Work(ctx context.Context, _ *river.Job[evidence.FindEvidence]) error {
	if err := w.d.findRevisions(ctx); err != nil {
		return err
	}
	if err := w.d.findPlans(ctx); err != nil {
		return err
	}
	return w.d.Evidence.EnqueuePending(ctx)
}

// since returns the time from which changes of a kind are searched: from the last one that was found, and not before the age at which
// bundles are deleted.
func (d Deps) since(ctx context.Context, kind bundle.Kind) (time.Time, error) {
	oldest := d.Clock.Now().AddDate(0, 0, -int(d.Policies.Latest().For().Int(policies.EvidenceDays)))
	last, err := d.Evidence.LastChange(ctx, kind)
	if from := last.Add(-overlap); from.After(oldest) {
		return from, err
	}
	return oldest, err
}

func (d Deps) isOldEnough(at time.Time) bool { return d.Clock.Now().Sub(at) >= buildAfter }

func (d Deps) findRevisions(ctx context.Context) error {
	from, err := d.since(ctx, bundle.Revision)
	if err != nil {
		return err
	}
	var causes []evidence.Cause
	for below, page := int64(0), make([]revision.Revision, pageSize); len(page) == pageSize; {
		if page, err = d.Desired.Revisions(ctx, revision.RevisionFilter{Status: revision.StatusApplied, Since: &from}, below, pageSize); err != nil {
			return err
		}
		for _, r := range page {
			below = r.Revision
			if d.isOldEnough(r.UpdatedAt) {
				number := strconv.FormatInt(r.Revision, 10)
				causes = append(causes, d.cause(bundle.Revision, number, r.Author, r.UpdatedAt))
			}
		}
	}
	return d.Evidence.Add(ctx, causes)
}

// findPlans finds applied plans, and approved ones that still wait. A plan that waits for longer gets a bundle of each step.
func (d Deps) findPlans(ctx context.Context) error {
	from, err := d.since(ctx, bundle.Plan)
	if err != nil {
		return err
	}
	var causes []evidence.Cause
	for _, status := range []string{change.StatusApproved, change.StatusApplied} {
		for before, page := (ids.Plan{}), make([]change.Stored, pageSize); len(page) == pageSize; {
			if page, err = d.Changes.Plans(ctx, change.Filter{Status: status, DecidedSince: &from, Before: before, Limit: pageSize}); err != nil {
				return err
			}
			for _, p := range page {
				before = p.ID
				if c := d.planCause(p); d.isOldEnough(c.ChangedAt) {
					causes = append(causes, c)
				}
			}
		}
	}
	return d.Evidence.Add(ctx, causes)
}

func (d Deps) planCause(p change.Stored) evidence.Cause {
	c := d.cause(bundle.Plan, p.ID.String(), p.Author, d.Clock.Now())
	switch {
	case p.AppliedAt != nil:
		c.ChangedAt = *p.AppliedAt
	case p.DecidedAt != nil:
		c.Cause, c.ChangedAt = c.Cause+"/approved", *p.DecidedAt
	}
	return c
}

// cause names a change. Its kind is also the kind of its URN.
func (d Deps) cause(kind bundle.Kind, subject, author string, at time.Time) evidence.Cause {
	if author == "" {
		author = "unknown"
	}
	return evidence.Cause{
		Kind: kind, About: d.Naming.Name("", "", string(kind), subject).String(), Subject: subject, Cause: string(kind) + "/" + subject, By: author, ChangedAt: at,
	}
}
