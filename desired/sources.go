package desired

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// HintSources is the topic that wakes whoever follows Git sources: somebody asked
// for a look, or decided about what waits.
const HintSources = "sources"

// Who declares a source.
const (
	DeclaredByServer      = "server"      // its flags
	DeclaredByEnvironment = "environment" // the profile that the first source holds
)

// SourceSpec is a source as it is declared. Settings hold its forge, access and
// verification; secrets stand in there as references.
type SourceSpec struct {
	Name       string          `json:"name"`
	Repository string          `json:"repository"`
	Ref        string          `json:"ref"`
	Dirs       []string        `json:"dirs"`
	Settings   json.RawMessage `json:"settings"`
}

// settings is what of a declared source is no column of its own.
type settings struct {
	Environment string    `json:"environment,omitempty"`
	Forge       *Forge    `json:"forge,omitempty"`
	Auth        *GitAuth  `json:"auth,omitempty"`
	Verify      GitVerify `json:"verify"`
}

// Spec is the source as its row keeps it.
func (g GitSource) Spec() (SourceSpec, error) {
	text, err := json.Marshal(settings{g.Environment, g.Forge, g.Auth, g.Verify})
	if err != nil {
		return SourceSpec{}, fmt.Errorf("encoding the settings of %s: %w", g.Name, err)
	}
	return SourceSpec{g.Name, g.Repository, g.Ref, g.Dirs, text}, nil
}

// Declared is the source as it was declared.
func (s SourceSpec) Declared() (GitSource, error) {
	g := GitSource{Name: s.Name, Repository: s.Repository, Ref: s.Ref, Dirs: s.Dirs}
	var set settings
	if err := json.Unmarshal(s.Settings, &set); err != nil {
		return g, fmt.Errorf("reading the settings of %s: %w", s.Name, err)
	}
	g.Environment, g.Forge, g.Auth, g.Verify = set.Environment, set.Forge, set.Auth, set.Verify
	return g, nil
}

// SourceState is one source, where it stands, and what was last seen of it.
type SourceState struct {
	SourceSpec

	DeclaredBy string
	Head       string // the commit that Ref named
	TreeHash   string // of that commit's folders
	CheckedAt  *time.Time
	FetchedAt  *time.Time // the last look that got an answer
	FaultCode  string
	Fault      string
	FaultSince *time.Time
	AskedAt    *time.Time
	Suspended  *Suspension
	Version    int64
	GoneAt     *time.Time

	Applied Pointer  // zero: nothing yet
	Latest  Revision // the last commit that was judged: number, commit, tree, status, objects, findings, waits, time
}

// DeclareSources makes these the sources that somebody declares. One that was
// declared before and is not named now is gone: its objects stay as they are.
// What was applied under a repository's address is taken over by its name.
func (s *Store) DeclareSources(ctx context.Context, by string, specs []SourceSpec) error {
	text, err := json.Marshal(append([]SourceSpec{}, specs...)) // nil would be null
	if err != nil {
		return fmt.Errorf("encoding sources: %w", err)
	}
	names := make([]string, len(specs))
	b := &pgx.Batch{}
	for i, spec := range specs {
		names[i] = spec.Name
		if spec.Name != spec.Repository {
			b.Queue(renameObjects, spec.Name, spec.Repository)
			b.Queue(renameRevision, spec.Name, spec.Repository)
			b.Queue(renamePointer, spec.Name, spec.Repository)
		}
	}
	b.Queue(upsertSources, by, text)
	b.Queue(leaveSources, by, names)
	if err := pg.Commit(ctx, s.DB, b, func() {}); err != nil {
		return fmt.Errorf("declaring sources: %w", err)
	}
	return nil
}

// Seen is what a look at a source found: a commit and its tree, or why not.
type Seen struct {
	Head, TreeHash string
	// Before is the tree that was seen when the look began: who marks the source
	// meanwhile, to have all of it compared, is not forgotten.
	Before string
	Fault  error
}

// Saw keeps it. A fault keeps the time since when it lasts.
func (s *Store) Saw(ctx context.Context, name string, seen Seen) error {
	code, text := "", ""
	if seen.Fault != nil {
		code, text = faultOf(seen.Fault)
	}
	if _, err := s.DB.Exec(ctx, sawSource, name, seen.Head, seen.TreeHash, code, text, seen.Before); err != nil {
		return fmt.Errorf("keeping what was seen of %s: %w", name, err)
	}
	return nil
}

// faultOf is for people who may not read what else the error says: an address may
// hold a password.
func faultOf(err error) (code, text string) {
	if coded, ok := errors.AsType[*errs.Error](err); ok {
		return string(coded.Code), coded.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return string(errs.Unavailable), "the repository did not respond in time"
	}
	return string(errs.Internal), "the sync of the source failed; the log of the server has the reason"
}

// Sources lists the sources by name, after a name; those too that are gone.
func (s *Store) Sources(ctx context.Context, after string, limit int) ([]SourceState, error) {
	rows, err := s.DB.Query(ctx, selectSources, after, limit)
	if err != nil {
		return nil, fmt.Errorf("listing sources: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanSource)
	if err != nil {
		return nil, fmt.Errorf("listing sources: %w", err)
	}
	return list, nil
}

// SourceByName reads one source.
func (s *Store) SourceByName(ctx context.Context, q pg.Queryer, name string) (SourceState, error) {
	rows, err := q.Query(ctx, selectSourceByName, name)
	if err != nil {
		return SourceState{}, fmt.Errorf("reading source %s: %w", name, err)
	}
	state, err := pgx.CollectExactlyOneRow(rows, scanSource)
	if errors.Is(err, pgx.ErrNoRows) {
		return SourceState{}, errs.New(errs.NotFound, "no source is named %q", name)
	}
	if err != nil {
		return SourceState{}, fmt.Errorf("reading source %s: %w", name, err)
	}
	return state, nil
}

// AskSource makes the next look come now; hint at HintSources after the commit.
func (s *Store) AskSource(ctx context.Context, q pg.Queryer, name string) (SourceState, error) {
	return s.turn(ctx, q, askSource, name)
}

// SuspendSource lets commits be read and judged, and none be applied.
func (s *Store) SuspendSource(ctx context.Context, tx pgx.Tx, name string, by Suspension) (SourceState, error) {
	return s.turn(ctx, tx, suspendSource, name, by.By, by.Reason, by.Until)
}

// ResumeSource ends that.
func (s *Store) ResumeSource(ctx context.Context, tx pgx.Tx, name string) (SourceState, error) {
	return s.turn(ctx, tx, resumeSource, name)
}

func (s *Store) turn(ctx context.Context, q pg.Queryer, sql, name string, args ...any) (SourceState, error) {
	tag, err := q.Exec(ctx, sql, append([]any{name}, args...)...)
	if err != nil {
		return SourceState{}, fmt.Errorf("changing source %s: %w", name, err)
	}
	if tag.RowsAffected() == 0 {
		return SourceState{}, errs.New(errs.NotFound, "no source is named %q", name)
	}
	return s.SourceByName(ctx, q, name)
}

func scanSource(row pgx.CollectableRow) (s SourceState, err error) {
	var by suspension
	var appliedAt, judgedAt *time.Time
	err = row.Scan(&s.Name, &s.Repository, &s.Ref, &s.Dirs, &s.DeclaredBy, &s.Settings, &s.Head, &s.TreeHash, &s.CheckedAt, &s.FetchedAt,
		&s.FaultCode, &s.Fault, &s.FaultSince, &s.AskedAt, &by.By, &by.Reason, &by.at, &by.Until, &s.Version, &s.GoneAt,
		&s.Applied.Revision, &s.Applied.Commit, &s.Applied.TreeHash, &appliedAt,
		&s.Latest.Revision, &s.Latest.Commit, &s.Latest.TreeHash, &s.Latest.Status, &s.Latest.Objects, &s.Latest.Findings, &s.Latest.Waits, &judgedAt)
	if err != nil {
		return SourceState{}, fmt.Errorf("scanning source: %w", err)
	}
	s.Suspended = by.standing()
	if appliedAt != nil {
		s.Applied.AppliedAt = *appliedAt
	}
	if judgedAt != nil {
		s.Latest.Source, s.Latest.UpdatedAt = s.Name, *judgedAt
	}
	return s, nil
}
