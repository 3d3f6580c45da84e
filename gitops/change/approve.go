package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Approval is the approval of a plan by one user.
type Approval struct {
	By     string    `json:"by"` // actor
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// people are the users behind a commit. The approver must differ from each.
type people struct {
	People []string `json:"people,omitempty"` // e-mail addresses that the commit contains
	Signer string   `json:"signer,omitempty"` // principal of the verified signature
}

func peopleOf(from Origin) people {
	p := people{Signer: from.Signer}
	for _, email := range append([]string{from.Author}, from.Emails...) {
		if email != "" && !slices.Contains(p.People, email) {
			p.People = append(p.People, email)
		}
	}
	return p
}

// Approve approves a waiting plan with the hash that the reviewer has read. The plan stays proposed
// until it has all approvals that it needs.
func (s *Service) Approve(ctx context.Context, ch identity.Change[Stored], id ids.Plan, hash, reason string) (Stored, error) {
	made, err := do(ctx, s, ch, func(tx pgx.Tx) (Stored, record, error) {
		p, c, err := s.lockObjects(ctx, tx, id, hash)
		switch {
		case err != nil:
		case p.Status != StatusProposed:
			err = decided(p)
		case len(p.Plan.Findings) > 0:
			err = errs.New(errs.Conflict, "this change cannot be applied: %s", p.Plan.Findings[0].Message).Try("correct it and propose it again")
		default:
			err = s.approve(ctx, tx, &p, c.Diff, ch.Caller, reason)
		}
		return p, s.decision("plan.approve", p, ch.Caller), err
	})
	return s.forgeReport(ctx, made, id, err)
}

// approve adds one approval. The plan is approved with the last that it needs.
func (s *Service) approve(ctx context.Context, tx pgx.Tx, p *Stored, d revision.Difference, by identity.Caller, reason string) error {
	written := slices.Clone(d.Created)
	for _, pair := range slices.Concat(d.Changed, d.Adopted) {
		written = append(written, pair.New)
	}
	if err := s.within(by, written...); err != nil {
		return err
	}
	needed, err := s.countNeeded(ctx, tx, *p, d)
	if err != nil {
		return err
	}
	if s.fourEyes(d) {
		if err := s.mayApprove(ctx, tx, *p, by); err != nil {
			return err
		}
	}
	a := Approval{By: by.Actor(), Reason: reason}
	err = tx.QueryRow(ctx, addApproval, p.ID, a.By, a.Reason).Scan(&a.At)
	if errors.Is(err, pgx.ErrNoRows) {
		return errs.New(errs.Conflict, "you have approved this plan already").Try("request the approval of another operator")
	}
	if err != nil {
		return fmt.Errorf("approving plan %s: %w", p.ID, err)
	}
	p.Approvals, p.ApprovalsNeeded = append(p.Approvals, a), needed
	if len(p.Approvals) < needed {
		return nil
	}
	return s.decide(ctx, tx, p, StatusApproved, by, reason)
}

// fourEyes reports whether a change needs a second person, by the stricter of the old and new rules.
func (s *Service) fourEyes(d revision.Difference) bool {
	return slices.Contains(preview.Requires(d, s.Rules().Requires), preview.RequiresApproved)
}

// mayApprove rejects an approver who is one of the people behind the change. A service account cannot
// approve: the user who has its credential may be the author.
func (s *Service) mayApprove(ctx context.Context, q pg.Queryer, p Stored, by identity.Caller) error {
	if by.ServiceAccount != (ids.ServiceAccount{}) {
		return errs.New(errs.PolicyDenied, "a service account cannot approve a change (gitops.apply_requires)").Try("approve it as a user")
	}
	pushers, err := s.pushers(ctx, q, p)
	if err != nil {
		return err
	}
	behind := slices.Concat(p.request.People, []string{p.Author, p.request.Signer}, pushers)
	if p.request.By == by.Actor() || p.Author == by.Actor() ||
		by.Email != "" && slices.ContainsFunc(behind, func(email string) bool { return strings.EqualFold(email, by.Email) }) {
		return errs.New(errs.PolicyDenied, "the author, committer, signer or pusher of a change cannot approve it (gitops.apply_requires)").
			Try("request the approval of another operator")
	}
	return nil
}

// countNeeded stores and returns how many users must approve a plan. A commit contains any name that
// its author writes. Two approvals are needed, unless a signature, the forge or the sign-in of the
// requester identifies one of the people behind the change.
func (s *Service) countNeeded(ctx context.Context, tx pgx.Tx, p Stored, d revision.Difference) (int, error) {
	attested, err := s.attested(ctx, tx, p)
	if err != nil {
		return 0, err
	}
	needed := 1
	if !attested && s.fourEyes(d) {
		needed = 2
	}
	if _, err := tx.Exec(ctx, changeNeeded, p.ID, needed); err != nil {
		return 0, fmt.Errorf("counting the approvals of plan %s: %w", p.ID, err)
	}
	return needed, nil
}

// attested reports whether the author of a change is known. Without a signature or a known pusher, a reviewer could
// approve a change of their own under another name.
func (s *Service) attested(ctx context.Context, q pg.Queryer, p Stored) (bool, error) {
	if p.Source == "" {
		return strings.HasPrefix(p.request.By, "user:"), nil
	}
	if p.request.Signer != "" {
		return true, nil
	}
	// An installation for development has one operator, who has not always written the commit.
	if _, profile, err := s.Desired.Profile(ctx, q); err == nil && profile.Development {
		return true, nil
	} else if err != nil && errs.CodeOf(err) != errs.NotFound {
		return false, err
	}
	pushers, err := s.pushers(ctx, q, p)
	return err == nil && len(pushers) > 0 && !slices.Contains(pushers, ""), err
}

func (s *Service) pushers(ctx context.Context, q pg.Queryer, p Stored) ([]string, error) {
	if s.Pushers == nil || p.Source == "" {
		return nil, nil
	}
	return s.Pushers(ctx, q, p.Source, p.Commit)
}

// Reject turns a change down. Its commit is not applied; the next one may be.
func (s *Service) Reject(ctx context.Context, ch identity.Change[Stored], id ids.Plan, hash, reason string) (Stored, error) {
	made, err := do(ctx, s, ch, func(tx pgx.Tx) (Stored, record, error) {
		p, err := s.read(ctx, tx, lockPlan, id, hash)
		switch {
		case err != nil:
		case p.Status != StatusProposed && p.Status != StatusApproved:
			err = decided(p)
		default:
			err = s.decide(ctx, tx, &p, StatusRejected, ch.Caller, reason)
		}
		return p, s.decision("plan.reject", p, ch.Caller), err
	})
	return s.forgeReport(ctx, made, id, err)
}

// decide stores the decision of a reviewer in the caller's transaction.
func (s *Service) decide(ctx context.Context, tx pgx.Tx, p *Stored, status string, by identity.Caller, reason string) error {
	var at time.Time
	if err := tx.QueryRow(ctx, decidePlan, p.ID, status, by.Actor(), reason).Scan(&at); err != nil {
		return fmt.Errorf("deciding plan %s: %w", p.ID, err)
	}
	p.Status, p.DecidedBy, p.DecidedAt, p.Decision = status, by.Actor(), &at, reason
	if p.Source == "" {
		return nil
	}
	// The watcher of the source polls it again and finds the decision.
	if _, err := s.Desired.RequestSync(ctx, tx, p.Source); err != nil && errs.CodeOf(err) != errs.NotFound {
		return err
	}
	return nil
}
