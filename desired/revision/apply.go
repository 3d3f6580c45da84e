package revision

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Wait is one reason why a revision waits for an approval.
type Wait struct {
	Reason  string   `json:"reason"` // prune_cap, under_allocations, mass_action, diverged, confirm, suspended
	Message string   `json:"message"`
	Objects []string `json:"objects"` // Kind/name
}

// MarshalJSON writes an empty list for a wait without objects. The contract requires a list.
func (w Wait) MarshalJSON() ([]byte, error) {
	type plain Wait
	w.Objects = append([]string{}, w.Objects...)
	return json.Marshal(plain(w))
}

// WaitSuspended is the one reason that no approval removes: the source is suspended, and its commits are only validated.
const WaitSuspended = "suspended"

// Verdict is the decision of a gate about a difference. An empty verdict lets the difference be applied.
type Verdict struct {
	Findings []desired.Finding // the difference is invalid
	Waits    []Wait            // the difference needs an approval, or its source is suspended
	Rejected string            // the user who rejected it, and the reason
	Plan     ids.Plan          // the plan that the approver has read
}

// Gate decides about a difference inside the applying transaction.
type Gate func(ctx context.Context, tx pgx.Tx, d Difference) (Verdict, error)

// Apply makes a snapshot the desired state of its source: the whole snapshot in one transaction that moves one pointer, or
// nothing. A difference that the gate rejects or defers is stored as a revision with its findings or waits and changes
// nothing else. The same decision about the same tree is written once.
func (s *Store) Apply(ctx context.Context, snap Snapshot, gate Gate) (Revision, error) {
	if snap.empty() && !snap.Generated {
		return Revision{}, errs.New(errs.SpecInvalid, "%s contains no object; an empty tree is rejected because it would remove the fleet", snap.Source)
	}
	rev := snap.revision()
	applied := false
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) (err error) {
		applied, err = s.apply(ctx, tx, snap, gate, &rev)
		return err
	})
	if err != nil {
		return Revision{}, err
	}
	if applied {
		failpoint.Hit("git.apply.after_commit")
		s.Hint()
	}
	return rev, nil
}

func (snap Snapshot) empty() bool {
	return len(snap.Objects) == 0 && (snap.Base == "" || snap.Total == 0)
}

func (snap Snapshot) revision() Revision {
	total := snap.Total
	if snap.Base == "" {
		total = len(snap.Objects)
	}
	rev := Revision{
		Source: snap.Source, Repository: snap.Repository, Commit: snap.Commit, TreeHash: snap.TreeHash, Status: StatusApplied, Objects: total,
		Author: snap.Meta.Author, AuthorEmail: snap.Meta.AuthorEmail, Message: snap.Meta.Message, Signer: snap.Meta.Signer,
	}
	if !snap.Meta.At.IsZero() {
		rev.CommittedAt = &snap.Meta.At
	}
	return rev
}

func (s *Store) apply(ctx context.Context, tx pgx.Tx, snap Snapshot, gate Gate, rev *Revision) (applied bool, err error) {
	p, err := s.lockPointer(ctx, tx, snap)
	if err != nil {
		return false, err
	}
	rev.Parent = p.Commit
	d, err := readDifference(ctx, tx, snap, true)
	if err != nil {
		return false, err
	}
	if err := desired.LockUnique(ctx, tx, d.written()); err != nil {
		return false, err
	}
	if d.Foreign, err = conflicts(ctx, tx, d); err != nil {
		return false, err
	}
	rev.Created, rev.Changed, rev.Deleted, rev.Adopted = len(d.Created), len(d.Changed), len(d.Deleted), len(d.Adopted)
	if err := rev.evaluate(ctx, tx, d, gate); err != nil || rev.Status != StatusApplied {
		if err == nil {
			err = s.record(ctx, tx, rev)
		}
		return false, err
	}
	if d.Empty() && p.Commit == snap.Commit && p.TreeHash == snap.TreeHash && p.Revision > 0 {
		// Another replica has applied it first.
		*rev, err = revisionAt(ctx, tx, p.Revision)
		return false, err
	}
	if !d.Empty() {
		if err := write(ctx, tx, snap, d); err != nil {
			return false, err
		}
	}
	if err := s.record(ctx, tx, rev); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, movePointer, rev.Source, rev.Revision, rev.Commit, snap.TreeHash); err != nil {
		return false, fmt.Errorf("moving the pointer: %w", err)
	}
	failpoint.Hit("git.apply.before_commit")
	return true, nil
}

// lockPointer lets one revision of a source be applied at a time. It rejects a snapshot that was read before the source
// applied another one.
func (s *Store) lockPointer(ctx context.Context, tx pgx.Tx, snap Snapshot) (Pointer, error) {
	if _, err := tx.Exec(ctx, lockSource, snap.Source); err != nil {
		return Pointer{}, fmt.Errorf("locking source: %w", err)
	}
	p, err := pointer(ctx, tx, snap.Source)
	if err != nil && errs.CodeOf(err) != errs.NotFound {
		return Pointer{}, err
	}
	if snap.Base != "" && snap.Base != p.TreeHash || snap.Since != nil && *snap.Since != p.Revision {
		return Pointer{}, errs.New(errs.Conflict, "%s has moved to revision %d since it was read", snap.Source, p.Revision)
	}
	return p, nil
}

// evaluate sets the status of the revision from the conflicts of the difference and the decision of the gate.
func (r *Revision) evaluate(ctx context.Context, tx pgx.Tx, d Difference, gate Gate) error {
	var v Verdict
	if gate != nil && len(d.Foreign) == 0 {
		var err error
		if v, err = gate(ctx, tx, d); err != nil {
			return fmt.Errorf("evaluating the revision: %w", err)
		}
	}
	r.Findings, r.Waits, r.Plan = slices.Concat(d.Foreign, v.Findings), v.Waits, v.Plan
	switch {
	case len(r.Findings) > 0:
		r.Status = StatusInvalid
	case v.Rejected != "":
		r.Status = StatusRejected
		r.Findings = []desired.Finding{{Code: desired.CodeRejected, Path: r.Repository, Message: v.Rejected}}
	case slices.ContainsFunc(v.Waits, func(w Wait) bool { return w.Reason != WaitSuspended }):
		r.Status = StatusWaiting
	case len(v.Waits) > 0:
		r.Status = StatusPlanned
	}
	return nil
}

// Preview returns the difference that applying a snapshot would make. It writes nothing.
func (s *Store) Preview(ctx context.Context, q pg.Queryer, snap Snapshot) (Difference, error) {
	d, err := readDifference(ctx, q, snap, false)
	if err != nil {
		return Difference{}, err
	}
	d.Foreign, err = conflicts(ctx, q, d)
	return d, err
}

// Reject records a commit that failed validation. The applied revision stays in effect.
func (s *Store) Reject(ctx context.Context, snap Snapshot, findings []desired.Finding) (Revision, error) {
	rev := snap.revision()
	rev.Status, rev.Objects, rev.Findings = StatusInvalid, 0, findings
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		p, err := s.lockPointer(ctx, tx, snap)
		if err != nil {
			return err
		}
		rev.Parent = p.Commit
		return s.record(ctx, tx, &rev)
	})
	return rev, err
}

// readDifference compares a snapshot with the stored objects. With lock it locks those objects until the
// transaction ends.
func readDifference(ctx context.Context, q pg.Queryer, snap Snapshot, lock bool) (Difference, error) {
	names := make([]string, 0, len(snap.Objects)+len(snap.Removed))
	for _, o := range snap.Objects {
		names = append(names, o.Name)
	}
	for _, n := range snap.Removed {
		names = append(names, n.Name)
	}
	stored, err := desired.OfSource(ctx, q, snap.Source, names, snap.Base == "", lock)
	if err != nil {
		return Difference{}, err
	}
	return Compare(stored, snap), nil
}

func write(ctx context.Context, tx pgx.Tx, snap Snapshot, d Difference) error {
	from := desired.Source{Owner: desired.OwnerGit, Name: snap.Source, Repository: snap.Repository, Commit: snap.Commit}
	if err := desired.PutOfSource(ctx, tx, from, d.written()); err != nil {
		return fmt.Errorf("writing revision: %w", err)
	}
	if err := desired.DeleteAll(ctx, tx, d.Deleted, "removed by a revision"); err != nil {
		return fmt.Errorf("removing objects that the revision no longer contains: %w", err)
	}
	return nil
}

// Conflicts returns the findings that prevent a difference: the names that belong to other owners, and what it would
// define a second time.
func (*Store) Conflicts(ctx context.Context, q pg.Queryer, d Difference) ([]desired.Finding, error) {
	return conflicts(ctx, q, d)
}

func conflicts(ctx context.Context, q pg.Queryer, d Difference) ([]desired.Finding, error) {
	replaced := map[ids.Object]bool{} // deleted, or written again and compared as what they become
	for _, o := range d.Deleted {
		replaced[o.UID] = true
	}
	for _, p := range slices.Concat(d.Changed, d.Adopted) {
		replaced[p.Old.UID] = true
	}
	found, err := desired.Duplicates(ctx, q, d.written(), func(o desired.Object) bool { return replaced[o.UID] })
	return slices.Concat(d.Foreign, found), err
}
