package desired

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Wait is one reason why a revision waits, and for what.
type Wait struct {
	Reason  string   `json:"reason"` // prune_cap, under_allocations, mass_action, diverged, confirm, suspended
	Message string   `json:"message"`
	Objects []string `json:"objects"` // Kind/name
}

// MarshalJSON writes a wait that names no object with an empty list: readers are
// promised one.
func (w Wait) MarshalJSON() ([]byte, error) {
	type plain Wait
	w.Objects = append([]string{}, w.Objects...)
	return json.Marshal(plain(w))
}

// WaitSuspended is the one reason that no approval answers: the source is
// suspended, and what was read of it is only judged.
const WaitSuspended = "suspended"

// Verdict is what a gate says of a difference. Nothing in it: apply.
type Verdict struct {
	Findings []Finding // it cannot be applied at all
	Waits    []Wait    // it must be approved first, or resumed
	Rejected string    // who said no, and why
	Plan     ids.Plan  // what was shown to whoever decides
}

// Gate judges a difference, inside the applying transaction.
type Gate func(ctx context.Context, tx pgx.Tx, d Difference) (Verdict, error)

// Apply makes a snapshot the declared truth of its source: all of it in one
// transaction that moves one pointer, or nothing. What the gate refuses or holds
// back is kept as a revision with its findings or waits, and changes nothing
// else; the same word about the same tree is written once.
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
	p, err := s.hold(ctx, tx, snap)
	if err != nil {
		return false, err
	}
	rev.Parent = p.Commit
	d, err := compareIn(ctx, tx, selectSourceLocked, snap)
	if err != nil {
		return false, err
	}
	if err := lockClaims(ctx, tx, d.written()); err != nil {
		return false, err
	}
	if d.Foreign, err = withRivals(ctx, tx, d); err != nil {
		return false, err
	}
	rev.Created, rev.Changed, rev.Deleted, rev.Adopted = len(d.Created), len(d.Changed), len(d.Deleted), len(d.Adopted)
	if err := rev.judge(ctx, tx, d, gate); err != nil || rev.Status != StatusApplied {
		if err == nil {
			err = s.record(ctx, tx, rev)
		}
		return false, err
	}
	if d.Empty() && p.Commit == snap.Commit && p.TreeHash == snap.TreeHash && p.Revision > 0 {
		// Another replica was faster.
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

// hold lets one revision of a source be applied at a time, and refuses one that
// was read before the source moved.
func (s *Store) hold(ctx context.Context, tx pgx.Tx, snap Snapshot) (Pointer, error) {
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

// judge asks what stands against the difference.
func (r *Revision) judge(ctx context.Context, tx pgx.Tx, d Difference, gate Gate) error {
	var v Verdict
	if gate != nil && len(d.Foreign) == 0 {
		var err error
		if v, err = gate(ctx, tx, d); err != nil {
			return fmt.Errorf("judging the revision: %w", err)
		}
	}
	r.Findings, r.Waits, r.Plan = slices.Concat(d.Foreign, v.Findings), v.Waits, v.Plan
	switch {
	case len(r.Findings) > 0:
		r.Status = StatusInvalid
	case v.Rejected != "":
		r.Status = StatusRejected
		r.Findings = []Finding{{Code: CodeRejected, Path: r.Repository, Message: v.Rejected}}
	case slices.ContainsFunc(v.Waits, func(w Wait) bool { return w.Reason != WaitSuspended }):
		r.Status = StatusWaiting
	case len(v.Waits) > 0:
		r.Status = StatusPlanned
	}
	return nil
}

// Preview is what applying a snapshot would change, and writes nothing.
func (s *Store) Preview(ctx context.Context, q pg.Queryer, snap Snapshot) (Difference, error) {
	d, err := compareIn(ctx, q, selectSource, snap)
	if err != nil {
		return Difference{}, err
	}
	d.Foreign, err = withRivals(ctx, q, d)
	return d, err
}

// Refuse records that a commit was not even compared; the last good one stays.
func (s *Store) Refuse(ctx context.Context, snap Snapshot, findings []Finding) (Revision, error) {
	rev := snap.revision()
	rev.Status, rev.Objects, rev.Findings = StatusInvalid, 0, findings
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		p, err := s.hold(ctx, tx, snap)
		if err != nil {
			return err
		}
		rev.Parent = p.Commit
		return s.record(ctx, tx, &rev)
	})
	return rev, err
}

func compareIn(ctx context.Context, q pg.Queryer, sql string, snap Snapshot) (Difference, error) {
	names := make([]string, 0, len(snap.Objects)+len(snap.Removed))
	for _, o := range snap.Objects {
		names = append(names, o.Name)
	}
	for _, n := range snap.Removed {
		names = append(names, n.Name)
	}
	rows, err := q.Query(ctx, sql, snap.Source, names, snap.Base == "")
	if err != nil {
		return Difference{}, fmt.Errorf("reading declared objects: %w", err)
	}
	have, err := pgx.CollectRows(rows, scanObject)
	if err != nil {
		return Difference{}, fmt.Errorf("reading declared objects: %w", err)
	}
	return Compare(have, snap), nil
}

func write(ctx context.Context, tx pgx.Tx, snap Snapshot, d Difference) error {
	text, err := json.Marshal(rowsOf(d.written()))
	if err != nil {
		return fmt.Errorf("encoding revision: %w", err)
	}
	gone := make([]uuid.UUID, len(d.Deleted))
	for i, o := range d.Deleted {
		gone[i] = o.UID.UUID
	}
	if _, err := tx.Exec(ctx, upsertSource, text, snap.Repository, snap.Commit, snap.Source); err != nil {
		return fmt.Errorf("writing revision: %w", err)
	}
	if _, err := tx.Exec(ctx, buryObjects, gone, "removed by a revision"); err != nil {
		return fmt.Errorf("removing what the revision dropped: %w", err)
	}
	return nil
}

// row is an object as upsertSource takes it.
type row struct {
	UID         uuid.UUID         `json:"uid"`
	Kind        Kind              `json:"kind"`
	Scope       string            `json:"scope"`
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Spec        json.RawMessage   `json:"spec"`
	SpecHash    string            `json:"spec_hash"`
	Path        string            `json:"path"`
	Line        int               `json:"line"`
	Col         int               `json:"col"`
}

func rowsOf(objects []Object) []row {
	rows := make([]row, 0, len(objects)) // a revision may only remove
	for _, o := range objects {
		rows = append(rows, row{
			orNew(o.UID).UUID, o.Kind, o.Scope, o.Name, object(o.Labels), object(o.Annotations), o.Spec, Hash(o.Spec),
			o.Source.Path, o.Source.Line, o.Source.Column,
		})
	}
	return rows
}
