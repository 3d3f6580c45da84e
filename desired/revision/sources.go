package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// HintSources is the topic that notifies the sync of Git sources after a request to sync or a decision about a plan.
const HintSources = "sources"

// The origins of a source.
const (
	DeclaredByServer      = "server"      // the flags of the server
	DeclaredByEnvironment = "environment" // the Environment object of the first source
)

// SourceSpec is the definition of a source. Settings contains its forge, access and verification, with references to
// secrets.
type SourceSpec struct {
	Name       string          `json:"name"`
	Repository string          `json:"repository"`
	Ref        string          `json:"ref"`
	Dirs       []string        `json:"dirs"`
	Settings   json.RawMessage `json:"settings"`
}

// settings contains the fields of a source that have no column.
type settings struct {
	Environment string            `json:"environment,omitempty"`
	Forge       *desired.Forge    `json:"forge,omitempty"`
	Auth        *desired.GitAuth  `json:"auth,omitempty"`
	Verify      desired.GitVerify `json:"verify"`
}

// SpecOf returns the form in which the row of a source stores its definition.
func SpecOf(g desired.GitSource) (SourceSpec, error) {
	text, err := json.Marshal(settings{g.Environment, g.Forge, g.Auth, g.Verify})
	if err != nil {
		return SourceSpec{}, fmt.Errorf("encoding the settings of %s: %w", g.Name, err)
	}
	return SourceSpec{g.Name, g.Repository, g.Ref, g.Dirs, text}, nil
}

// Declared returns the source as the Environment object defines it.
func (s SourceSpec) Declared() (desired.GitSource, error) {
	g := desired.GitSource{Name: s.Name, Repository: s.Repository, Ref: s.Ref, Dirs: s.Dirs}
	var set settings
	if err := json.Unmarshal(s.Settings, &set); err != nil {
		return g, fmt.Errorf("reading the settings of %s: %w", s.Name, err)
	}
	g.Environment, g.Forge, g.Auth, g.Verify = set.Environment, set.Forge, set.Auth, set.Verify
	return g, nil
}

// SourceState is one source with its applied revision and the result of its last fetch.
type SourceState struct {
	SourceSpec

	DeclaredBy  string
	Head        string // the commit of Ref
	TreeHash    string // of that commit's folders
	CheckedAt   *time.Time
	FetchedAt   *time.Time // the last fetch that succeeded
	FaultCode   string
	Fault       string
	FaultSince  *time.Time
	RequestedAt *time.Time
	Suspended   *desired.Suspension
	Version     int64
	CreatedAt   time.Time
	UpdatedAt   time.Time // of its configuration or suspension; a poll is no change
	GoneAt      *time.Time

	Applied Pointer  // zero: no revision yet
	Latest  Revision // the latest revision: number, commit, tree, status, objects, findings, waits, time
}

// DeclareSources replaces the sources of one origin. A source that is missing now is marked as removed; its objects stay
// unchanged. Objects that were applied under the address of a repository move to the name of its source.
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
			desired.QueueRename(b, spec.Name, spec.Repository)
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

// Fetched is the result of a fetch: a commit and its tree, or the error.
type Fetched struct {
	Head, TreeHash string
	// Before is the tree that was stored when the fetch began. Saw stores the new tree only if it is still the same, so
	// that an invalidation during the fetch is not lost.
	Before string
	Fault  error
}

// RecordFetch stores the result of a fetch. A repeated error retains the time of the first one.
func (s *Store) RecordFetch(ctx context.Context, name string, seen Fetched) error {
	code, text := "", ""
	if seen.Fault != nil {
		code, text = faultOf(seen.Fault)
	}
	if _, err := s.DB.Exec(ctx, sawSource, name, seen.Head, seen.TreeHash, code, text, seen.Before); err != nil {
		return fmt.Errorf("storing the fetch of %s: %w", name, err)
	}
	return nil
}

// faultOf returns the code and the message that users may read. The whole error may contain an address with a password.
func faultOf(err error) (code, text string) {
	if coded, ok := errors.AsType[*errs.Error](err); ok {
		return string(coded.Code), coded.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return string(errs.Unavailable), "the repository did not respond in time"
	}
	return string(errs.Internal), "the sync of the source failed; the log of the server has the reason"
}

// Sources lists the sources by name, after a name, removed ones included.
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

// RequestSync requests a sync now. The caller sends HintSources after the commit.
func (s *Store) RequestSync(ctx context.Context, q pg.Queryer, name string) (SourceState, error) {
	return s.changeSource(ctx, q, askSource, name)
}

// SuspendSource lets commits be fetched and validated, and none be applied.
func (s *Store) SuspendSource(ctx context.Context, tx pgx.Tx, name string, by desired.Suspension) (SourceState, error) {
	return s.changeSource(ctx, tx, suspendSource, name, by.By, by.Reason, by.Until)
}

// ResumeSource ends a suspension.
func (s *Store) ResumeSource(ctx context.Context, tx pgx.Tx, name string) (SourceState, error) {
	return s.changeSource(ctx, tx, resumeSource, name)
}

func (s *Store) changeSource(ctx context.Context, q pg.Queryer, sql, name string, args ...any) (SourceState, error) {
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
	var by desired.SuspensionRow
	var appliedAt, evaluatedAt *time.Time
	err = row.Scan(&s.Name, &s.Repository, &s.Ref, &s.Dirs, &s.DeclaredBy, &s.Settings, &s.Head, &s.TreeHash, &s.CheckedAt, &s.FetchedAt,
		&s.FaultCode, &s.Fault, &s.FaultSince, &s.RequestedAt, &by.By, &by.Reason, &by.At, &by.Until, &s.Version, &s.CreatedAt, &s.UpdatedAt, &s.GoneAt,
		&s.Applied.Revision, &s.Applied.Commit, &s.Applied.TreeHash, &appliedAt,
		&s.Latest.Revision, &s.Latest.Commit, &s.Latest.TreeHash, &s.Latest.Status, &s.Latest.Objects, &s.Latest.Findings, &s.Latest.Waits, &evaluatedAt)
	if err != nil {
		return SourceState{}, fmt.Errorf("scanning source: %w", err)
	}
	s.Suspended = by.Active()
	if appliedAt != nil {
		s.Applied.AppliedAt = *appliedAt
	}
	if evaluatedAt != nil {
		s.Latest.Source, s.Latest.UpdatedAt = s.Name, *evaluatedAt
	}
	return s, nil
}
