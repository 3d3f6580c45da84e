package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
)

// ErrMoved means that another bundle has the number of a draft.
var ErrMoved = errors.New("another bundle was appended to the chain of evidence")

// Draft is a signed file in the object store. Its number is that of the next bundle until another one is appended.
type Draft struct {
	id               uuid.UUID // of the bundle
	number           int64
	previous, sha256 string
	size             int64
	object           uuid.UUID
	kid              string
	at               time.Time
}

// putWithin is shorter than the time of a job, so that an object store that hangs is an outage, and not a failure of the job.
const putWithin = 20 * time.Second

// Draft signs records as the next bundle of the chain, and stores the file. No transaction is open meanwhile: the object store may be
// slow, and a transaction that writes delays the events of all others.
func (s *Service) Draft(ctx context.Context, r Record, parts []bundle.Part, at time.Time) (Draft, error) {
	d := Draft{id: r.ID, object: uuid.Must(uuid.NewV7()), at: at}
	var err error
	if d.number, d.previous, err = next(ctx, s.DB); err != nil {
		return Draft{}, err
	}
	file, kid, err := bundle.Sign(ctx, s.Signer, bundle.Predicate{
		ID: r.ID, Environment: s.Environment, Number: d.number, Previous: d.previous, Kind: r.Kind, About: r.About, Cause: r.Cause, RequestedBy: r.RequestedBy,
		CollectedAt: at.UTC(), Parts: parts,
	})
	if err != nil {
		return Draft{}, err
	}
	d.kid, d.sha256, d.size = kid, bundle.SHA256(file), int64(len(file))
	storing, cancel := context.WithTimeout(ctx, putWithin)
	defer cancel()
	if _, err := s.Files.Put(storing, d.object, bytes.NewReader(file), d.size); err != nil {
		return Draft{}, errs.New(errs.Unavailable, "the object store has not stored the evidence bundle").Because(err)
	}
	return d, nil
}

// next returns the number and the predecessor of the next bundle.
func next(ctx context.Context, q pg.Queryer) (number int64, previous string, err error) {
	switch err := q.QueryRow(ctx, selectNewest).Scan(&number, &previous); {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return 0, "", fmt.Errorf("reading the end of the chain of evidence: %w", err)
	}
	return number + 1, previous, nil
}

// Append appends a draft to the chain, or returns ErrMoved. A bundle that is not pending any more changes nothing. If tx is not
// committed, the file stays in the object store without a row, and the comparison of the object store deletes it.
func (s *Service) Append(ctx context.Context, tx pgx.Tx, d Draft) error {
	if _, err := tx.Exec(ctx, lockChain); err != nil {
		return fmt.Errorf("locking the chain of evidence: %w", err)
	}
	r, err := pg.One(ctx, tx, "evidence bundle", lockOne, scan, d.id)
	if err != nil || r.Status != StatusPending {
		return err
	}
	switch number, previous, err := next(ctx, tx); {
	case err != nil:
		return err
	case number != d.number || previous != d.previous:
		return ErrMoved
	}
	b := &pgx.Batch{}
	b.Queue(updateSigned, d.id, d.number, d.previous, d.sha256, d.size, d.object, d.kid, s.Signer.Public()[d.kid], d.at)
	s.queueAudit(b, r, "evidence.sign", map[string]any{"number": d.number, "sha256": d.sha256, "key_id": d.kid})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("appending the evidence bundle %s: %w", d.id, err)
	}
	return nil
}

// Discard deletes the file of a draft whose number another bundle has.
func (s *Service) Discard(ctx context.Context, d Draft) error { return s.Files.Delete(ctx, d.object) }

// queueAudit records what a worker did with a bundle.
func (s *Service) queueAudit(b *pgx.Batch, r Record, action string, after map[string]any) {
	e := audit.Entry{By: audit.By{Actor: "system:work", CorrelationID: r.CorrelationID}, Action: action, Target: r.URN(s.Naming), After: after}
	if r.Tenant != nil {
		e.Tenant = ids.From[ids.Tenant](*r.Tenant)
	}
	audit.Queue(b, e)
}
