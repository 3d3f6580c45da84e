package change

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// What became of a plan.
const (
	StatusProposed = "proposed"
	StatusApproved = "approved"
	StatusApplied  = "applied"
	StatusStale    = "stale"
	StatusRejected = "rejected"
)

// Stored is a stored plan with the decision about it.
type Stored struct {
	ID        ids.Plan
	CreatedAt time.Time
	Hash      string
	Status    string
	Source    string // empty: objects that the API owns
	Commit    string
	Pull      int // number of the pull request; 0: none
	Author    string
	DecidedBy string
	DecidedAt *time.Time
	Decision  string
	AppliedAt *time.Time
	Plan      preview.Plan
	// Approvals are those given so far. The plan is approved when there are ApprovalsNeeded.
	Approvals       []Approval
	ApprovalsNeeded int

	request storedRequest
}

// Request contains files whose effect is requested.
type Request struct {
	Source string // whose whole tree they are; empty: objects that the API would own
	Commit string
	Author string // for the record
	Files  map[string][]byte
}

// Origin identifies the people behind a plan. The approver must differ from all of them.
type Origin struct {
	Author string   // e-mail address or actor
	Emails []string // of the author and the committer, as in the commit
	Signer string   // principal of the verified signature; empty without one
	Actor  string   // the requester, if it was a request
	Pull   int
}

// Filter chooses plans; what is empty is not compared.
type Filter struct {
	Source, Status, Commit string
	Before                 ids.Plan   // zero: from the newest
	DecidedSince           *time.Time // of the approval or the application, inclusive; nil: also those without a decision
	Limit                  int
}

// Proposal is a change and its plan.
type Proposal struct {
	Change preview.Change
	Plan   preview.Plan
	// Requested contains the objects of the request. If it is nil, the plan stores what the change
	// writes: the commit identifies the rest.
	Requested []desired.Object
}

// Make computes the effect of a change now.
func (s *Service) Make(ctx context.Context, q pg.Queryer, c preview.Change) (Proposal, error) {
	f, err := s.gatherAffected(ctx, q, c.Diff)
	if err == nil && c.Owner == desired.OwnerAPI {
		c.Trusted, err = s.oneOperator(ctx, q)
	}
	if err != nil {
		return Proposal{}, err
	}
	return Proposal{Change: c, Plan: preview.Make(c, f, s.Rules())}, nil
}

// Store stores a plan. An equal plan of the same source and commit is stored once.
func (s *Service) Store(ctx context.Context, tx pgx.Tx, p Proposal, from Origin) (Stored, error) {
	document, err := p.Plan.Document()
	if err != nil {
		return Stored{}, fmt.Errorf("encoding plan: %w", err)
	}
	id := ids.New[ids.Plan]()
	if _, err := tx.Exec(ctx, lockChange, p.Plan.Source, p.Plan.Commit, p.Plan.Hash); err != nil {
		return Stored{}, fmt.Errorf("locking plan: %w", err)
	}
	err = tx.QueryRow(ctx, findPlan, p.Plan.Source, p.Plan.Commit, p.Plan.Hash, p.Plan.Findings).Scan(&id)
	switch {
	case err == nil:
		author, behind := from.Author, peopleOf(from)
		if from.Actor != "" {
			author, behind = "", people{} // a request does not change the people of a stored plan
		}
		_, err = tx.Exec(ctx, renewPlan, id, from.Pull, author, behind)
	case errors.Is(err, pgx.ErrNoRows):
		steps := p.Plan.Creates + p.Plan.Changes + p.Plan.Deletes + p.Plan.Adopts
		_, err = tx.Exec(ctx, insertPlan, id, p.Plan.Hash, steps, p.Plan.Source, p.Plan.Commit, from.Pull, document, requestOf(p, from), from.Author)
	}
	if err != nil {
		return Stored{}, fmt.Errorf("keeping plan: %w", err)
	}
	kept, err := readPlan(ctx, tx, selectPlan, id)
	if err != nil {
		return Stored{}, err
	}
	kept.ApprovalsNeeded, err = s.countNeeded(ctx, tx, kept, p.Change.Diff)
	return kept, err
}

// Gate checks a difference against the approval rules and stores its plan. The revision waits if
// the rules require an approval and no other reviewer has approved this plan hash yet.
func (s *Service) Gate(ctx context.Context, tx pgx.Tx, c preview.Change, from Origin) (revision.Verdict, error) {
	p, err := s.Make(ctx, tx, c)
	if err != nil || p.Plan.Empty() {
		return revision.Verdict{Findings: p.Plan.Findings}, err
	}
	kept, err := s.Store(ctx, tx, p, from)
	if err != nil {
		return revision.Verdict{}, err
	}
	v := revision.Verdict{Findings: p.Plan.Findings, Waits: p.Plan.Waits, Plan: kept.ID}
	switch kept.Status {
	case StatusApproved:
		v.Waits = nil
	case StatusRejected:
		v.Rejected = strings.TrimSuffix("rejected by "+kept.DecidedBy+": "+kept.Decision, ": ")
	}
	return v, nil
}

// Applied marks a plan as applied in the transaction that applies its change.
func (s *Service) Applied(ctx context.Context, tx pgx.Tx, id ids.Plan) error {
	if _, err := tx.Exec(ctx, finishPlan, id); err != nil {
		return fmt.Errorf("finishing plan %s: %w", id, err)
	}
	return nil
}

// Propose computes the effect of files and stores the plan, so that exactly this plan can be
// approved or applied.
func (s *Service) Propose(ctx context.Context, ch identity.Change[Stored], r Request) (Stored, error) {
	snap, err := s.snapshot(ctx, r)
	if err != nil {
		return Stored{}, err
	}
	return do(ctx, s, ch, func(tx pgx.Tx) (Stored, record, error) {
		c, err := s.compare(ctx, tx, snap)
		if err != nil {
			return Stored{}, record{}, err
		}
		p, err := s.Make(ctx, tx, c)
		if err != nil {
			return Stored{}, record{}, err
		}
		if r.Source == "" {
			p.Requested = snap.Objects
		}
		kept, err := s.Store(ctx, tx, p, Origin{Author: authorOf(r, ch.Caller), Actor: ch.Caller.Actor()})
		return kept, s.planned("plan.propose", kept), err
	})
}

func authorOf(r Request, c identity.Caller) string {
	switch {
	case r.Author != "":
		return r.Author
	case c.Email != "":
		return c.Email
	}
	return c.Actor()
}

// Apply applies a plan for objects that the API owns, completely and with the hash that the
// operator has read.
func (s *Service) Apply(ctx context.Context, ch identity.Change[Stored], id ids.Plan, hash string) (Stored, error) {
	made, err := do(ctx, s, ch, func(tx pgx.Tx) (Stored, record, error) {
		p, c, err := s.lockObjects(ctx, tx, id, hash)
		if err == nil {
			err = p.appliable()
		}
		if err == nil {
			err = s.Desired.PutAll(ctx, tx, wanted(c.Diff))
		}
		if err == nil {
			err = tx.QueryRow(ctx, finishPlan, id).Scan(&p.AppliedAt)
			p.Status = StatusApplied
		}
		return p, s.decision("plan.apply", p, ch.Caller), err
	})
	return s.forgeReport(ctx, made, id, err)
}

// appliable returns the reason why the API must not apply a plan. A plan of a commit is applied by the sync of its source.
func (p Stored) appliable() error {
	switch {
	case p.Status != StatusProposed && p.Status != StatusApproved:
		return decided(p)
	case p.Source != "":
		return errs.New(errs.Conflict, "a commit is applied by merging it into the branch that %s follows", p.Source).Try("merge it")
	case len(p.Plan.Findings) > 0 && p.Plan.Findings[0].Code == string(errs.ManagedByGit):
		return errs.New(errs.ManagedByGit, "%s %s", p.Plan.Findings[0].Object, p.Plan.Findings[0].Message).With("findings", p.Plan.Findings)
	case len(p.Plan.Findings) > 0:
		return errs.New(errs.SpecInvalid, "this change cannot be applied: %s", p.Plan.Findings[0].Message).With("findings", p.Plan.Findings)
	case len(p.Plan.Waits) > 0 && p.Status != StatusApproved:
		return errs.New(errs.ApprovalRequired, "this change waits for approval: %s", p.Plan.Waits[0].Message).
			Try("request an approval of plan %s", p.ID).With("approval_reasons", p.Plan.Waits)
	}
	return nil
}

func decided(p Stored) error {
	text := "this plan is " + p.Status + " already"
	if p.Status == StatusStale {
		text = "the plan is stale: its basis has changed"
	}
	return errs.New(errs.Conflict, "%s", text).With("status", p.Status).Try("propose the change again")
}

// lockObjects locks a plan and computes it again. If the result differs, it returns an error that
// lists the differences.
func (s *Service) lockObjects(ctx context.Context, tx pgx.Tx, id ids.Plan, hash string) (Stored, preview.Change, error) {
	p, err := s.read(ctx, tx, lockPlan, id, hash)
	if err != nil || p.Status != StatusProposed && p.Status != StatusApproved {
		return p, preview.Change{}, err
	}
	c, err := s.compareLocked(ctx, tx, p)
	if err != nil {
		return Stored{}, preview.Change{}, err
	}
	now, err := s.Make(ctx, tx, c)
	if err != nil {
		return Stored{}, preview.Change{}, err
	}
	if now.Plan.Hash != p.Hash {
		return Stored{}, preview.Change{}, errs.New(errs.PlanStale, "the basis of the plan has changed").
			With("moved", preview.Moved(p.Plan, now.Plan)).Try("read the new plan and decide again")
	}
	p.Plan.Waits, p.Plan.Findings = now.Plan.Waits, now.Plan.Findings // by the rules of now
	return p, c, nil
}

// read reads a plan and compares its hash with the hash that the operator has reviewed.
func (*Service) read(ctx context.Context, q pg.Queryer, sql string, id ids.Plan, hash string) (Stored, error) {
	p, err := readPlan(ctx, q, sql, id)
	if err == nil && hash != "" && hash != p.Hash {
		return Stored{}, errs.New(errs.PlanStale, "this plan has another hash than the one that you have read").
			At("hash").With("hash", p.Hash).With("moved", []string{"the plan itself"}).Try("read the plan and decide again")
	}
	return p, err
}

func readPlan(ctx context.Context, q pg.Queryer, sql string, id ids.Plan) (Stored, error) {
	rows, err := q.Query(ctx, sql, id)
	if err != nil {
		return Stored{}, fmt.Errorf("reading plan %s: %w", id, err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, scanPlan)
	if errors.Is(err, pgx.ErrNoRows) {
		return Stored{}, errs.New(errs.NotFound, "no such plan")
	}
	if err != nil {
		return Stored{}, fmt.Errorf("reading plan %s: %w", id, err)
	}
	return p, nil
}

// forgeReport queues a forge report after a decision, or marks the plan as stale. It needs its own
// transaction, because the transaction that found the difference was rolled back.
func (s *Service) forgeReport(ctx context.Context, made Stored, id ids.Plan, err error) (Stored, error) {
	switch {
	case err == nil:
		s.Hints.Send(revision.HintSources)
		s.Hints.Send(event.Topic)
		s.Desired.Hint()
	case errs.CodeOf(err) == errs.PlanStale:
		s.age(ctx, id, err)
	}
	return made, err
}

func (s *Service) age(ctx context.Context, id ids.Plan, why error) {
	var refused *errs.Error
	if p, err := s.Plan(ctx, id); err == nil && errors.As(why, &refused) && refused.Field == "" {
		_, _ = s.DB.Exec(ctx, agePlan, id, p.Hash) // best effort: the next reader of the plan finds the same
	}
}

func (s *Service) planned(action string, p Stored) record {
	after := map[string]any{"status": p.Status, "hash": p.Hash, "source": p.Source, "commit": p.Commit, "summary": p.Plan.Summary}
	if p.Decision != "" {
		after["reason"] = p.Decision
	}
	return s.entry(action, "plan", p.ID.String(), nil, after)
}

func (s *Service) decision(action string, p Stored, by identity.Caller) record {
	r := s.planned(action, p)
	reason := p.Decision
	if p.Status == StatusApplied {
		reason = "" // it was the approver's
	}
	r.events = []event.Draft{s.decidedEvent(p, by, reason)}
	return r
}

// Plan reads one plan of a change.
func (s *Service) Plan(ctx context.Context, id ids.Plan) (Stored, error) {
	return readPlan(ctx, s.DB, selectPlan, id)
}

// Plans lists the plans of changes, newest first.
func (s *Service) Plans(ctx context.Context, f Filter) ([]Stored, error) {
	if f.Before == (ids.Plan{}) {
		f.Before.UUID = uuid.Max
	}
	if f.Limit == 0 {
		f.Limit = math.MaxInt32
	}
	rows, err := s.DB.Query(ctx, selectPlans, f.Source, f.Status, f.Commit, f.Before, f.Limit, f.DecidedSince)
	if err != nil {
		return nil, fmt.Errorf("listing plans: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanPlan)
	if err != nil {
		return nil, fmt.Errorf("listing plans: %w", err)
	}
	return list, nil
}
