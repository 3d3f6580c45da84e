package evidence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// outageFor is the longest outage of the object store that a pending bundle waits for.
const outageFor = 7 * 24 * time.Hour

// Begin counts an attempt to build a pending bundle, and returns it. A bundle that is not pending is returned as it is.
func (s *Service) Begin(ctx context.Context, id uuid.UUID) (Record, error) {
	r, err := pg.One(ctx, s.DB, "evidence bundle", beginAttempt, scan, id)
	if errs.CodeOf(err) == errs.NotFound {
		return s.Read(ctx, id)
	}
	return r, err
}

// Fail records why an attempt has not built a bundle, and returns the bundle. It has failed after MaxAttempts, after a long outage, or
// at once if another attempt would have the same result. Then operators and the tenant see the reason, and an alert fires.
func (s *Service) Fail(ctx context.Context, id uuid.UUID, cause error) (r Record, err error) {
	code, message := reasonOf(cause)
	final, outage := code == errs.NotFound || code == errs.BodyTooLarge, code == errs.Unavailable
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		r, err = pg.One(ctx, tx, "evidence bundle", failAttempt, scan, id, code, message, final, outage, MaxAttempts, outageFor)
		if err != nil || r.Status != StatusFailed {
			return err
		}
		b := &pgx.Batch{}
		s.queueAudit(b, r, "evidence.fail", map[string]any{"code": code, "message": message})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("recording the failure of the evidence bundle %s: %w", id, err)
		}
		return nil
	})
	return r, err
}

// reasonOf returns what a tenant may read. The log of the job has the cause of an internal error.
func reasonOf(cause error) (errs.Code, string) {
	if coded, ok := errors.AsType[*errs.Error](cause); ok && coded.Code != errs.Internal {
		return coded.Code, coded.Message
	}
	return errs.Internal, "the server has failed to collect the records"
}

// Missing counts the bundles that operators must know: those that are pending for more than an hour, and those that failed in the last
// day.
type Missing struct{ Pending, Failed int64 }

// Missing reads it.
func (s *Service) Missing(ctx context.Context) (m Missing, err error) {
	if err := s.DB.QueryRow(ctx, selectMissing).Scan(&m.Pending, &m.Failed); err != nil {
		return m, fmt.Errorf("counting missing evidence bundles: %w", err)
	}
	return m, nil
}
