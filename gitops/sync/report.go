package sync

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
)

// The facts of a commit.
const (
	SubjectApplied  = "fleet.revision_applied"
	SubjectWaiting  = "fleet.revision_waiting"
	SubjectRejected = "fleet.revision_rejected"
)

// outcomes maps the result of a commit to the subject of its event and the action of its audit row.
var outcomes = map[string]struct{ subject, action string }{
	revision.StatusApplied:  {SubjectApplied, "revision.apply"},
	revision.StatusWaiting:  {SubjectWaiting, "revision.wait"},
	revision.StatusPlanned:  {SubjectWaiting, "revision.wait"},
	revision.StatusInvalid:  {SubjectRejected, "revision.reject"},
	revision.StatusRejected: {SubjectRejected, "revision.reject"},
}

// Revised is the fact of a commit, as the contract has it.
type Revised struct {
	Revision int64    `json:"revision"`
	Source   string   `json:"source"`
	Commit   string   `json:"commit"`
	Status   string   `json:"status"`
	Plan     string   `json:"plan_id"`
	Author   string   `json:"author"`
	Created  int      `json:"created"`
	Changed  int      `json:"changed"`
	Deleted  int      `json:"deleted"`
	Adopted  int      `json:"adopted"`
	Findings []string `json:"findings"`
	Waits    []string `json:"approval_reasons"`
}

// maxFindings are enough to know what is wrong; the revision has them all.
const maxFindings = 10

// revisedOf is the fact of a revision.
func revisedOf(r revision.Revision) Revised {
	fact := Revised{
		Revision: r.Revision, Source: r.Source, Commit: r.Commit, Status: r.Status, Author: author(r), Created: r.Created, Changed: r.Changed,
		Deleted: r.Deleted, Adopted: r.Adopted, Findings: []string{}, Waits: []string{},
	}
	if r.Plan != (ids.Plan{}) {
		fact.Plan = r.Plan.String()
	}
	for _, f := range r.Findings[:min(len(r.Findings), maxFindings)] {
		fact.Findings = append(fact.Findings, f.String())
	}
	for _, one := range r.Waits {
		fact.Waits = append(fact.Waits, one.Reason)
	}
	return fact
}

func author(r revision.Revision) string {
	return authorOf(revision.Meta{Author: r.Author, AuthorEmail: r.AuthorEmail})
}

// Record records the result of a commit in the transaction that decides it: an event, an audit row,
// and the forge reports.
func (f *Syncer) Record(ctx context.Context, tx pgx.Tx, r revision.Revision) error {
	word := outcomes[r.Status]
	target := f.Naming.Name("", "", "revision", fmt.Sprint(r.Revision)).String()
	b := &pgx.Batch{}
	event.Queue(b, event.Draft{
		Stream: event.StreamFleet, Subject: word.subject, Aggregate: fmt.Sprintf("revision:%d", r.Revision), Sequence: r.Version, URN: target, Payload: revisedOf(r),
	})
	audit.Queue(b, audit.Entry{By: audit.By{Actor: actor(r)}, Action: word.action, Target: target, After: revisedOf(r)})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("telling what became of %s: %w", r.Commit, err)
	}
	if r.Status == revision.StatusApplied && r.Plan != (ids.Plan{}) {
		if err := f.Change.Applied(ctx, tx, r.Plan); err != nil {
			return err
		}
	}
	if !f.forgeReports(r.Source) {
		return nil
	}
	return f.Reports.Put(ctx, tx, statuses(r))
}

// actor returns the author of the commit. A revision without a commit was written by the platform.
func actor(r revision.Revision) string {
	if by := author(r); by != "" {
		return "git:" + by
	}
	return "system:reconcile"
}

// forgeReports reports whether this source has a forge that displays the results of its commits.
func (f *Syncer) forgeReports(source string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.watchers[source]
	return f.Reports != nil && w != nil && w.spec.Forge != nil && w.spec.Forge.TokenRef != ""
}

// statuses returns the commit statuses for a commit of the tracked branch.
func statuses(r revision.Revision) []forge.Report {
	of := func(context string, state forge.State, text string) forge.Report {
		return forge.OfCommit(r.Source, r.Commit, forge.Status{Context: context, State: state, Text: text})
	}
	valid := of(forge.ContextValidate, forge.Success, fmt.Sprintf("%d objects", r.Objects))
	counts := fmt.Sprintf("%d to create, %d to change, %d to delete", r.Created+r.Adopted, r.Changed, r.Deleted)
	plan := of(forge.ContextPlan, forge.Success, counts)
	switch r.Status {
	case revision.StatusApplied:
		return []forge.Report{
			valid, plan, of(forge.ContextPolicy, forge.Success, "no objections"),
			of(forge.ContextSync, forge.Success, fmt.Sprintf("applied as revision %d", r.Revision)),
		}
	case revision.StatusWaiting, revision.StatusPlanned:
		waits := of(forge.ContextPolicy, forge.Pending, Reason(r))
		return []forge.Report{valid, plan, waits, of(forge.ContextSync, forge.Pending, Reason(r))}
	case revision.StatusInvalid:
		if faulty(r) {
			valid = of(forge.ContextValidate, forge.Failure, Reason(r))
			return []forge.Report{valid, of(forge.ContextSync, forge.Failure, "invalid; the last applied revision stays in effect")}
		}
	}
	refused := of(forge.ContextPolicy, forge.Failure, Reason(r))
	return slices.Concat([]forge.Report{valid, plan, refused}, []forge.Report{of(forge.ContextSync, forge.Failure, "invalid; the last applied revision stays in effect")})
}
