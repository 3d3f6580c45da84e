package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// The states of a revision. Only an applied one has changed the source.
const (
	StatusApplied  = "applied"
	StatusInvalid  = "invalid"
	StatusWaiting  = "waiting_approval"
	StatusPlanned  = "planned"  // evaluated while its source is suspended
	StatusRejected = "rejected" // by a user, or superseded by a later commit while it waited
)

// Revision is one commit of a source with its state. The state may change: a waiting revision may be approved.
type Revision struct {
	Revision    int64             `json:"revision"`
	Source      string            `json:"source"`
	Repository  string            `json:"repository"`
	Commit      string            `json:"commit"`
	TreeHash    string            `json:"tree_hash"`
	Parent      string            `json:"parent"` // the commit that was applied before
	Status      string            `json:"status"`
	Objects     int               `json:"objects"`
	Created     int               `json:"created"`
	Changed     int               `json:"changed"`
	Deleted     int               `json:"deleted"`
	Adopted     int               `json:"adopted"`
	Author      string            `json:"author"`
	AuthorEmail string            `json:"author_email"`
	Message     string            `json:"message"` // first line of the commit's
	CommittedAt *time.Time        `json:"committed_at,omitempty"`
	Signer      string            `json:"signer,omitempty"`
	Findings    []desired.Finding `json:"findings"`
	Waits       []Wait            `json:"approval_reasons"`
	Plan        ids.Plan          `json:"plan_id"` // zero: without a plan
	Version     int64             `json:"version"` // incremented with each change of the state
	At          time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
}

// same reports whether both revisions describe the same commit with the same state.
func (r Revision) same(other Revision) bool {
	return r.about(other) && r.state() == other.state()
}

// state returns all that may change of a revision, as it is stored.
func (r Revision) state() string {
	text, err := json.Marshal([]any{r.Status, r.Plan, r.Parent, r.Objects, r.Created, r.Changed, r.Deleted, r.Adopted, r.Findings, r.Waits})
	if err != nil {
		return err.Error() // texts and numbers always encode
	}
	return string(text)
}

func (r Revision) about(other Revision) bool {
	return r.Source == other.Source && r.Commit == other.Commit && r.TreeHash == other.TreeHash
}

// Pointer names the applied revision of a source.
type Pointer struct {
	Revision  int64
	Commit    string
	TreeHash  string
	AppliedAt time.Time
}

// Pointer reads the applied revision of a source. It returns not_found before the first one.
func (s *Store) Pointer(ctx context.Context, source string) (Pointer, error) {
	return pointer(ctx, s.DB, source)
}

func pointer(ctx context.Context, q pg.Queryer, source string) (p Pointer, err error) {
	err = q.QueryRow(ctx, selectPointer, source).Scan(&p.Revision, &p.Commit, &p.TreeHash, &p.AppliedAt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Pointer{}, errs.New(errs.NotFound, "no revision of %s is applied yet", source)
	case err != nil:
		return Pointer{}, fmt.Errorf("reading the pointer of %s: %w", source, err)
	}
	return p, nil
}

// RevisionFilter selects revisions. Empty fields match every revision.
type RevisionFilter struct {
	Source string
	Status string
	Commit string
	Since  *time.Time // of the last change, inclusive
}

// Revisions lists revisions, newest first, below a number. Zero starts with the newest.
func (s *Store) Revisions(ctx context.Context, f RevisionFilter, below int64, limit int) ([]Revision, error) {
	if below == 0 {
		below = math.MaxInt64
	}
	return revisions(ctx, s.DB, selectRevisions, f.Source, f.Status, f.Commit, below, limit, f.Since)
}

// RevisionAt reads one revision by its number.
func (s *Store) RevisionAt(ctx context.Context, q pg.Queryer, number int64) (Revision, error) {
	return revisionAt(ctx, q, number)
}

func revisionAt(ctx context.Context, q pg.Queryer, number int64) (Revision, error) {
	list, err := revisions(ctx, q, selectRevision, number)
	if err == nil && len(list) == 0 {
		err = errs.New(errs.NotFound, "revision %d does not exist", number)
	}
	if err != nil {
		return Revision{}, err
	}
	return list[0], nil
}

// Latest reads the latest revision of a source. It returns not_found before the first one.
func (s *Store) Latest(ctx context.Context, q pg.Queryer, source string) (Revision, error) {
	list, err := revisions(ctx, q, selectLatest, source)
	if err == nil && len(list) == 0 {
		err = errs.New(errs.NotFound, "no revision of %s is validated yet", source)
	}
	if err != nil {
		return Revision{}, err
	}
	return list[0], nil
}

func revisions(ctx context.Context, q pg.Queryer, sql string, args ...any) ([]Revision, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("reading revisions: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanRevision)
	if err != nil {
		return nil, fmt.Errorf("reading revisions: %w", err)
	}
	return list, nil
}

// record stores the state of a revision. A commit that is the latest one and is not applied retains its row, so that a
// waiting revision is applied under its number. An older waiting revision is superseded. An equal state writes nothing.
func (s *Store) record(ctx context.Context, tx pgx.Tx, rev *Revision) error {
	rev.fill()
	latest, err := s.Latest(ctx, tx, rev.Source)
	switch {
	case errs.CodeOf(err) == errs.NotFound:
	case err != nil:
		return err
	case latest.same(*rev) && rev.Status != StatusApplied:
		*rev = latest
		return nil
	case latest.about(*rev) && latest.Status != StatusApplied:
		rev.Revision = latest.Revision
	}
	if rev.Revision == 0 {
		if _, err := tx.Exec(ctx, overtakeRevisions, rev.Source, []desired.Finding{overtaken(*rev)}); err != nil {
			return fmt.Errorf("overtaking what waited: %w", err)
		}
	}
	if err := s.put(ctx, tx, rev); err != nil || s.Record == nil {
		return err
	}
	return s.Record(ctx, tx, *rev)
}

func (r *Revision) fill() {
	if r.Findings == nil {
		r.Findings = []desired.Finding{}
	}
	if r.Waits == nil {
		r.Waits = []Wait{}
	}
}

func overtaken(by Revision) desired.Finding {
	return desired.Finding{Code: desired.CodeOvertaken, Path: by.Repository, Message: "was overtaken by commit " + by.Commit + " while it waited"}
}

func (s *Store) put(ctx context.Context, tx pgx.Tx, r *Revision) error {
	args := []any{
		r.Source, r.Repository, r.Commit, r.TreeHash, r.Parent, r.Status, r.Objects, r.Created, r.Changed, r.Deleted, r.Adopted,
		r.Author, r.AuthorEmail, r.Message, r.CommittedAt, r.Signer, r.Findings, r.Waits, orNone(r.Plan),
	}
	sql := insertRevision
	if r.Revision > 0 {
		sql, args = updateRevision, append(args[4:11:11], r.Findings, r.Waits, orNone(r.Plan), r.Revision)
	}
	if err := tx.QueryRow(ctx, sql, args...).Scan(&r.Revision, &r.Version, &r.At, &r.UpdatedAt); err != nil {
		return fmt.Errorf("recording revision: %w", err)
	}
	return nil
}

func orNone(p ids.Plan) any {
	if p == (ids.Plan{}) {
		return nil
	}
	return p.UUID
}

// DeleteOld deletes revisions of an age that their source has replaced, at most limit of them. A revision is found by its
// number and by its commit, and there is one for each commit, so the table has no partitions.
func DeleteOld(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deleteRevisions, age, limit)
	if err != nil {
		return 0, fmt.Errorf("deleting old revisions: %w", err)
	}
	return tag.RowsAffected(), nil
}
