package desired

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Pointer is the revision that a source stands at.
type Pointer struct {
	Revision  int64
	Commit    string
	TreeHash  string
	AppliedAt time.Time
}

// Pointer reads where a source stands; not_found before its first revision.
func (s *Store) Pointer(ctx context.Context, source string) (Pointer, error) {
	return pointer(ctx, s.DB, source)
}

func pointer(ctx context.Context, q pg.Queryer, source string) (p Pointer, err error) {
	err = q.QueryRow(ctx, selectPointer, source).Scan(&p.Revision, &p.Commit, &p.TreeHash, &p.AppliedAt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Pointer{}, errs.New(errs.NotFound, "nothing has been applied from %s yet", source)
	case err != nil:
		return Pointer{}, fmt.Errorf("reading the pointer of %s: %w", source, err)
	}
	return p, nil
}

// Revisions lists applied and refused revisions, newest first, below a number
// (0: from the newest).
func (s *Store) Revisions(ctx context.Context, below int64, limit int) ([]Revision, error) {
	if below == 0 {
		below = math.MaxInt64
	}
	rows, err := s.DB.Query(ctx, selectRevisions, below, limit)
	if err != nil {
		return nil, fmt.Errorf("listing revisions: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Revision])
	if err != nil {
		return nil, fmt.Errorf("listing revisions: %w", err)
	}
	return list, nil
}
