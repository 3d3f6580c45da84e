package desired

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
)

// Snapshot is everything that one source declares at one commit, validated.
type Snapshot struct {
	Repository string
	Commit     string
	TreeHash   string
	Objects    []Object
	// Generated says that no person wrote this: it may be empty on purpose.
	Generated bool
}

// Caps bound how much one revision may take away without a person's word.
type Caps struct {
	Objects int // always allowed to go
	Percent int // of the source's objects
}

// Guard finds what a revision may not remove: that which live things stand on.
// It is asked inside the applying transaction.
type Guard func(ctx context.Context, tx pgx.Tx, removed []Object) ([]Finding, error)

// Revision is one applied or refused snapshot.
type Revision struct {
	Revision int64     `json:"revision"`
	Source   string    `json:"source"`
	Commit   string    `json:"commit"`
	Status   string    `json:"status"` // applied | invalid | waiting_approval
	Objects  int       `json:"objects"`
	Created  int       `json:"created"`
	Changed  int       `json:"changed"`
	Deleted  int       `json:"deleted"`
	Findings []Finding `json:"findings"`
	At       time.Time `json:"created_at"`
}

// Apply makes a snapshot the declared truth of its source: all of it in one
// transaction that moves one pointer, or nothing. A snapshot that would take too
// much away, or anything from under a live thing, or another owner's object, is
// kept as a refused revision with its findings and changes nothing else.
func (s *Store) Apply(ctx context.Context, snap Snapshot, caps Caps, guard Guard) (Revision, error) {
	if len(snap.Objects) == 0 && !snap.Generated {
		return Revision{}, errs.New(errs.SpecInvalid, "%s declares nothing; an empty tree is taken for an accident", snap.Repository)
	}
	rev := Revision{Source: snap.Repository, Commit: snap.Commit, Objects: len(snap.Objects), Status: "applied"}
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		// One revision of a source at a time; a second replica waits and then
		// finds nothing left to change.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('apply ' || $1))`, snap.Repository); err != nil {
			return fmt.Errorf("locking source: %w", err)
		}
		have, err := readSource(ctx, tx, snap)
		if err != nil {
			return err
		}
		d := compare(have, snap)
		rev.Created, rev.Changed, rev.Deleted = len(d.created), len(d.changed), len(d.deleted)
		if rev.Findings, err = d.refused(ctx, tx, snap, caps, guard); err != nil {
			return err
		}
		if len(rev.Findings) > 0 {
			rev.Status = "waiting_approval"
			return s.record(ctx, tx, &rev)
		}
		if d.empty() {
			return s.rest(ctx, tx, &rev, snap)
		}
		if err := write(ctx, tx, snap, d); err != nil {
			return err
		}
		if err := s.point(ctx, tx, &rev, snap); err != nil {
			return err
		}
		failpoint.Hit("git.apply.before_commit")
		return nil
	})
	if err != nil {
		return Revision{}, err
	}
	failpoint.Hit("git.apply.after_commit")
	s.Hint()
	return rev, nil
}

// Refuse records that a commit did not validate; the last good one stays.
func (s *Store) Refuse(ctx context.Context, source, commit string, findings []Finding) (Revision, error) {
	rev := Revision{Source: source, Commit: commit, Status: "invalid", Findings: findings}
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error { return s.record(ctx, tx, &rev) })
	return rev, err
}

type difference struct {
	created, changed, deleted []Object
	foreign                   []Finding
	kept                      int
}

func (d difference) empty() bool {
	return len(d.created)+len(d.changed)+len(d.deleted) == 0
}

// compare is pure: what a snapshot changes, given what its source and the other
// owners hold under the same names.
func compare(have []Object, snap Snapshot) (d difference) {
	byName := make(map[string]Object, len(have))
	for _, o := range have {
		if old, ok := byName[key(o)]; !ok || old.DeletedAt != nil {
			byName[key(o)] = o // a living object hides a tombstone of its name
		}
	}
	for _, want := range snap.Objects {
		old, ok := byName[key(want)]
		switch {
		case !ok:
			want.UID = orNew(want.UID)
			d.created = append(d.created, want)
		case old.DeletedAt == nil && old.Source.Owner == OwnerAPI:
			d.foreign = append(d.foreign, Finding{
				Path: want.Source.Path, Line: want.Source.Line, Column: want.Source.Column,
				Object: string(want.Kind) + "/" + want.Name, Message: "is managed by the API (managed_by_api)", Expected: "a name that is free, or the object removed there first",
			})
		case old.DeletedAt != nil, old.SpecHash != Hash(want.Spec), moved(old, want):
			want.UID, want.SpecHash = old.UID, old.SpecHash
			want.DeletedAt = old.DeletedAt
			d.changed = append(d.changed, want)
			d.kept++
		default:
			d.kept++
		}
		delete(byName, key(want))
	}
	for _, o := range have {
		left, ok := byName[key(o)]
		if ok && left.UID == o.UID && o.DeletedAt == nil && o.Source.Owner == OwnerGit && o.Source.Repository == snap.Repository {
			d.deleted = append(d.deleted, o)
		}
	}
	return d
}

func key(o Object) string { return string(o.Kind) + "/" + o.Scope + "/" + o.Name }

// moved: the place in the file is shown to people who must edit it, so it is
// kept true, as labels are; neither raises the generation.
func moved(old, want Object) bool {
	return !maps.Equal(old.Labels, want.Labels) || !maps.Equal(old.Annotations, want.Annotations) ||
		old.Source.Path != want.Source.Path || old.Source.Line != want.Source.Line || old.Source.Column != want.Source.Column
}

func (d difference) refused(ctx context.Context, tx pgx.Tx, snap Snapshot, caps Caps, guard Guard) ([]Finding, error) {
	findings := slices.Clone(d.foreign)
	if allowed := max(caps.Objects, (len(d.deleted)+d.kept)*caps.Percent/100); len(d.deleted) > allowed {
		findings = append(findings, Finding{
			Path: snap.Repository, Message: fmt.Sprintf("removes %d of %d objects (prune_limit)", len(d.deleted), len(d.deleted)+d.kept),
			Expected: fmt.Sprintf("at most %d in one revision, or an approval", allowed),
		})
	}
	if guard == nil || len(d.deleted) == 0 {
		return findings, nil
	}
	more, err := guard(ctx, tx, d.deleted)
	if err != nil {
		return nil, fmt.Errorf("asking what stands on removed objects: %w", err)
	}
	return append(findings, more...), nil
}

func readSource(ctx context.Context, tx pgx.Tx, snap Snapshot) ([]Object, error) {
	names := make([]string, len(snap.Objects))
	for i, o := range snap.Objects {
		names[i] = o.Name
	}
	rows, err := tx.Query(ctx, selectObject+` WHERE kind <> 'Allocation' AND (owner = 'git' AND repository = $1 OR name = ANY($2)) ORDER BY uid FOR UPDATE`, snap.Repository, names)
	if err != nil {
		return nil, fmt.Errorf("reading declared objects: %w", err)
	}
	have, err := pgx.CollectRows(rows, scanObject)
	if err != nil {
		return nil, fmt.Errorf("reading declared objects: %w", err)
	}
	return have, nil
}

func write(ctx context.Context, tx pgx.Tx, snap Snapshot, d difference) error {
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
	rows := []row{} // a revision may only remove
	for _, o := range slices.Concat(d.created, d.changed) {
		rows = append(rows, row{
			o.UID.UUID, o.Kind, o.Scope, o.Name, object(o.Labels), object(o.Annotations), o.Spec, Hash(o.Spec),
			o.Source.Path, o.Source.Line, o.Source.Column,
		})
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("encoding revision: %w", err)
	}
	gone := make([]uuid.UUID, len(d.deleted))
	for i, o := range d.deleted {
		gone[i] = o.UID.UUID
	}
	if _, err := tx.Exec(ctx, upsertSource, text, snap.Repository, snap.Commit); err != nil {
		return fmt.Errorf("writing revision: %w", err)
	}
	if _, err := tx.Exec(ctx, buryObjects, gone); err != nil {
		return fmt.Errorf("removing what the revision dropped: %w", err)
	}
	return nil
}

func (s *Store) record(ctx context.Context, tx pgx.Tx, rev *Revision) error {
	if rev.Findings == nil {
		rev.Findings = []Finding{}
	}
	err := tx.QueryRow(ctx, insertRevision, rev.Source, rev.Commit, rev.Status, rev.Objects, rev.Created, rev.Changed, rev.Deleted, rev.Findings).
		Scan(&rev.Revision, &rev.At)
	if err != nil {
		return fmt.Errorf("recording revision: %w", err)
	}
	return nil
}

// rest moves the pointer to a commit that changes no object. A source that stands
// there already, since another replica was faster, is left as it is.
func (s *Store) rest(ctx context.Context, tx pgx.Tx, rev *Revision, snap Snapshot) error {
	p, err := pointer(ctx, tx, snap.Repository)
	switch {
	case errs.CodeOf(err) == errs.NotFound:
	case err != nil:
		return err
	case p.Commit == snap.Commit && p.TreeHash == snap.TreeHash:
		rev.Revision, rev.At = p.Revision, p.AppliedAt
		return nil
	}
	return s.point(ctx, tx, rev, snap)
}

func (s *Store) point(ctx context.Context, tx pgx.Tx, rev *Revision, snap Snapshot) error {
	if err := s.record(ctx, tx, rev); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, movePointer, rev.Source, rev.Revision, rev.Commit, snap.TreeHash); err != nil {
		return fmt.Errorf("moving the pointer: %w", err)
	}
	return nil
}
