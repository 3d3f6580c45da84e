package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// cleanupBatch is the number of rows of one transaction of the cleanup job.
const cleanupBatch = 500

// PurgeDeleted removes deleted objects that are due, in batches, until there are none.
func (s *Service) PurgeDeleted(ctx context.Context) error {
	for {
		due, err := pg.List(ctx, s.DB, "deleted files", selectPurge, scanScope, cleanupBatch)
		if err != nil || len(due) == 0 {
			return err
		}
		for _, at := range due {
			if err := s.purge(ctx, at); err != nil {
				return fmt.Errorf("purging files of %s: %w", at.Project, err)
			}
		}
	}
}

func scanScope(row pgx.CollectableRow) (at Scope, err error) {
	err = row.Scan(&at.Tenant, &at.Project)
	return at, err
}

// purge removes one batch of a project. The objects of a folder become deleted objects themselves, and their folder goes
// with a later batch.
func (s *Service) purge(ctx context.Context, at Scope) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := s.lockClosed(ctx, tx, at); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, trashChildren, at.Project, cleanupBatch); err != nil {
			return err
		}
		var bytes, objects int64
		if err := tx.QueryRow(ctx, deletePurged, at.Project, at.Tenant, cleanupBatch).Scan(&bytes, &objects); err != nil {
			return err
		}
		b := &pgx.Batch{}
		s.queueUsage(b, at, change{bytes: -bytes, objects: -objects})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		failpoint.Hit("storage.purge.before_commit")
		return nil
	})
	if err == nil {
		failpoint.Hit("storage.purge.after_commit")
	}
	return err
}

// EndReservations gives the bytes of uploads that ended without a file back, and deletes the backend objects that no file
// has.
func (s *Service) EndReservations(ctx context.Context) error {
	for {
		ended, err := pg.List(ctx, s.DB, "reservations", selectEnded, scanReservation, cleanupBatch)
		if err != nil || len(ended) == 0 {
			return err
		}
		var failed error
		for _, r := range ended {
			if err := s.collect(ctx, r.at, r.key); err != nil {
				failed = errors.Join(failed, fmt.Errorf("deleting the backend object %s: %w", r.key, err))
			}
		}
		if failed != nil {
			return failed
		}
	}
}

func scanReservation(row pgx.CollectableRow) (r reservation, err error) {
	err = row.Scan(&r.key, &r.at.Tenant, &r.at.Project)
	return r, err
}

// collect deletes the backend object of a reservation that has ended. No copy can begin to use it: it would need a file that
// has it. A backend object that a lost part of the history may have made a file stays.
func (s *Service) collect(ctx context.Context, at Scope, key uuid.UUID) error {
	unused := false
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := s.lockClosed(ctx, tx, at); err != nil {
			return err
		}
		var bytes int64
		switch err := tx.QueryRow(ctx, emptyReservation, key).Scan(&bytes, &unused); {
		case errors.Is(err, pgx.ErrNoRows): // another worker has deleted it
			return nil
		case err != nil:
			return err
		}
		b := &pgx.Batch{}
		s.queueUsage(b, at, change{reserved: -bytes})
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return err
	}
	failpoint.Hit("storage.collect.after_commit")
	if unused {
		if err := s.Blobs.Delete(ctx, key); err != nil {
			return err
		}
	}
	failpoint.Hit("storage.collect.after_object")
	_, err = s.DB.Exec(ctx, deleteReservation, key)
	return err
}

// CleanUp does the regular work of the cleanup job.
func (s *Service) CleanUp(ctx context.Context) error {
	return errors.Join(s.PurgeDeleted(ctx), s.EndUploads(ctx), s.EndReservations(ctx))
}

// Due reports whether the cleanup job has work.
func (s *Service) Due(ctx context.Context) (due bool, err error) {
	err = s.DB.QueryRow(ctx, cleanupDue).Scan(&due)
	return due, wrap(err, "reading what is due of", "storage")
}
