package evidence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
)

// Cause is a change that a bundle is about.
type Cause struct {
	Kind    bundle.Kind
	About   string // URN
	Subject string
	Cause   string // unique in its kind
	By      string // actor
	// ChangedAt is the time of a change that a search has found. The next search begins with it.
	ChangedAt time.Time
}

// Queue adds a pending bundle of the platform to the transaction of a change. A cause that has one gets no second.
func Queue(b *pgx.Batch, c Cause) {
	b.Queue(insertPending, uuid.Must(uuid.NewV7()), nil, c.Kind, c.About, c.Subject, c.Cause, c.By, "", nil)
}

// Add adds pending bundles of the causes that have none in one statement: a search that is killed leaves all of them or none.
func (s *Service) Add(ctx context.Context, causes []Cause) error {
	n := len(causes)
	id, at := make([]uuid.UUID, n), make([]time.Time, n)
	kind, about, subject, cause, by := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, c := range causes {
		id[i], kind[i], about[i], subject[i], cause[i], by[i], at[i] = uuid.Must(uuid.NewV7()), string(c.Kind), c.About, c.Subject, c.Cause, c.By, c.ChangedAt
	}
	if _, err := s.DB.Exec(ctx, insertFound, id, kind, about, subject, cause, by, at); err != nil {
		return fmt.Errorf("adding the evidence of %d changes: %w", n, err)
	}
	return nil
}

// LastChange returns the time of the last change of a kind that a search has found, or zero.
func (s *Service) LastChange(ctx context.Context, kind bundle.Kind) (at time.Time, err error) {
	err = s.DB.QueryRow(ctx, selectChanged, kind).Scan(&at)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return at, fmt.Errorf("reading the last change with evidence: %w", err)
	}
	return at, nil
}

// pendingAtOnce limits the jobs that one search inserts. The next one inserts more.
const pendingAtOnce = 100

// EnqueuePending inserts the jobs of pending bundles. A bundle that has an unfinished job gets no second.
func (s *Service) EnqueuePending(ctx context.Context) error {
	pending, err := pg.List(ctx, s.DB, "pending evidence bundles", selectPending, pgx.RowTo[uuid.UUID], pendingAtOnce)
	if err != nil {
		return err
	}
	for _, id := range pending {
		if _, err := s.Jobs.Insert(ctx, BuildEvidence{Bundle: id}, nil); err != nil {
			return fmt.Errorf("queueing the evidence bundle %s: %w", id, err)
		}
	}
	return nil
}

// FilesAmong returns those of the backend objects that are the file of a bundle.
func (s *Service) FilesAmong(ctx context.Context, objects []uuid.UUID) ([]uuid.UUID, error) {
	return pg.List(ctx, s.DB, "files of evidence bundles", selectFiles, pgx.RowTo[uuid.UUID], objects)
}

// DeleteOld deletes some bundles that are older than an age, and returns how many. The comparison of the object store deletes
// their files. Bundles have their own number of days, and the newest one of the chain stays, so the table has no partitions.
func DeleteOld(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deleteOld, age, limit)
	if err != nil {
		return 0, fmt.Errorf("deleting old evidence bundles: %w", err)
	}
	return tag.RowsAffected(), nil
}
