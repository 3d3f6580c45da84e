// Package record stores which backups exist and when one was verified, so that the servers export their age.
package record

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/policies"
)

// Service reads and writes the rows.
type Service struct{ DB pg.Queryer }

const (
	insertBackup = `
		INSERT INTO backups (id, started_at, ended_at, size_bytes) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING`
	updateVerified = `UPDATE backups SET verified_at = clock_timestamp(), faults = $2 WHERE id = $1`
	deleteBackups  = `DELETE FROM backups WHERE id = ANY ($1)`

	// selectAges: before the first verification, its age is that of the oldest backup.
	selectAges = `
		SELECT extract(epoch FROM clock_timestamp() - max(ended_at))::float8,
			extract(epoch FROM clock_timestamp() - coalesce(max(verified_at) FILTER (WHERE faults = 0), min(ended_at)))::float8
		FROM backups HAVING count(*) > 0`
)

// Created stores a new backup.
func (s *Service) Created(ctx context.Context, m manifest.Manifest) error {
	if _, err := s.DB.Exec(ctx, insertBackup, m.ID, m.StartedAt, m.EndedAt, m.Bytes()); err != nil {
		return fmt.Errorf("recording backup %s: %w", m.ID, err)
	}
	return nil
}

// Verified stores the result of a verification.
func (s *Service) Verified(ctx context.Context, m manifest.Manifest, faults int) error {
	if err := s.Created(ctx, m); err != nil { // a restored database does not have the row
		return err
	}
	if _, err := s.DB.Exec(ctx, updateVerified, m.ID, faults); err != nil {
		return fmt.Errorf("recording the verification of %s: %w", m.ID, err)
	}
	return nil
}

// Removed deletes the rows of backups that are not in the target any more.
func (s *Service) Removed(ctx context.Context, backups []string) error {
	if _, err := s.DB.Exec(ctx, deleteBackups, backups); err != nil {
		return fmt.Errorf("recording removed backups: %w", err)
	}
	return nil
}

// Ages are the times since the end of the last backup, and since the last verification without a fault.
type Ages struct{ Backup, Verified time.Duration }

// Ages returns false while there is no backup.
func (s *Service) Ages(ctx context.Context) (a Ages, found bool, err error) {
	rows, err := s.DB.Query(ctx, selectAges)
	if err != nil {
		return a, false, fmt.Errorf("reading the age of backups: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var backup, verified float64
		if err := rows.Scan(&backup, &verified); err != nil {
			return a, false, fmt.Errorf("reading the age of backups: %w", err)
		}
		a, found = Ages{seconds(backup), seconds(verified)}, true
	}
	return a, found, rows.Err()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Rules are the policies of backups.
type Rules struct{ Every, Keep time.Duration }

// RulesFrom reads them.
func RulesFrom(c *policies.Client) func() Rules {
	return func() Rules {
		v := c.Latest().For()
		return Rules{
			Every: time.Duration(v.Int(policies.BackupEveryHours)) * time.Hour,
			Keep:  time.Duration(v.Int(policies.BackupKeepDays)) * 24 * time.Hour,
		}
	}
}
