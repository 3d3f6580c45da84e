package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// CreateConfig is the input of Create.
type CreateConfig struct {
	URL         string // for pg_basebackup; of the database of DB
	DB          *pgxpool.Pool
	Server      seal.Server
	Environment string
	// WaitWAL limits the wait for the archived WAL of the backup.
	WaitWAL time.Duration
	// Streams returns the last sequences of the streams of NATS; nil: they are not in the manifest.
	Streams func(context.Context) (map[string]uint64, error)
}

// Create makes a backup. It is visible from the moment at which its manifest is stored.
func (s *Service) Create(ctx context.Context, c CreateConfig) (m manifest.Manifest, err error) {
	lock, err := c.DB.Acquire(ctx)
	if err != nil {
		return m, fmt.Errorf("connecting for a backup: %w", err)
	}
	defer func() { // the session has the lock
		_ = lock.Conn().Close(context.WithoutCancel(ctx))
		lock.Release()
	}()
	var got bool
	if err := lock.QueryRow(ctx, tryLock).Scan(&got); err != nil {
		return m, fmt.Errorf("locking backups: %w", err)
	}
	if !got {
		return m, errs.New(errs.Conflict, "another backup of this database is running").Try("wait for its end")
	}
	archiving, err := describe(ctx, c, &m)
	if err != nil {
		return m, err
	}
	if err := s.build(ctx, c, &m); err != nil {
		return m, full(err)
	}
	if err := s.await(ctx, c, &m, archiving); err != nil {
		return m, err
	}
	return m, full(s.publish(ctx, c, &m))
}

// describe fills in what is known before the backup, and returns the setting archive_mode.
func describe(ctx context.Context, c CreateConfig, m *manifest.Manifest) (archiving string, err error) {
	var system string
	if err := c.DB.QueryRow(ctx, selectSystem).Scan(&system, &m.PostgreSQL, &m.Database, &m.Superuser, &m.SegmentBytes, &m.Schema, &archiving, &m.StartedAt); err != nil {
		return "", fmt.Errorf("reading the database system: %w", err)
	}
	if m.System, err = strconv.ParseUint(system, 10, 64); err != nil {
		return "", fmt.Errorf("reading the database system: %w", err)
	}
	m.StartedAt = m.StartedAt.UTC()
	m.ID = m.StartedAt.Format("20060102t150405z") + "-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:8]
	m.Environment = c.Environment
	return archiving, nil
}

// build stores the base backup, and reads what a restore must contain.
func (s *Service) build(ctx context.Context, c CreateConfig, m *manifest.Manifest) error {
	bin, err := toolsOf(ctx, m.PostgreSQL)
	if err != nil {
		return err
	}
	file, wal, err := s.base(ctx, m.ID, c, bin)
	if err != nil {
		return err
	}
	m.Files = append(m.Files, file)
	m.Timeline, m.Start, m.End = wal.Timeline, wal.Start, wal.End
	if c.Streams != nil {
		if m.Streams, err = c.Streams(ctx); err != nil {
			return fmt.Errorf("reading the positions of NATS: %w", err)
		}
	}
	return readChecks(ctx, c, m)
}

// toolsOf returns the tools of exactly one major version.
func toolsOf(ctx context.Context, major int) (pgcluster.Binaries, error) {
	installed, err := pgcluster.Installed(ctx)
	if err != nil {
		return pgcluster.Binaries{}, err
	}
	for _, bin := range installed {
		if bin.Major == major {
			return bin, nil
		}
	}
	return pgcluster.Binaries{}, errs.New(errs.Conflict, "the database is of PostgreSQL %d, and installed is %d", major, installed[0].Major).
		Try("install the package postgresql-%d", major)
}

// readChecks reads the heads of ledger and audit first: they are then also in every later state of the database.
func readChecks(ctx context.Context, c CreateConfig, m *manifest.Manifest) error {
	books, err := (&ledger.Service{DB: c.DB}).Verify(ctx, zeroTenant)
	if err != nil {
		return err
	}
	records, err := (&audit.Service{DB: c.DB}).Verify(ctx, zeroTenant, nil)
	if err != nil {
		return err
	}
	m.Checks.Ledger, m.Checks.Audit = books.Chains, records.Chains
	m.Checks.At, m.Checks.Rows, err = countRows(ctx, c.DB)
	return err
}

// walPoll is the interval at which await reads the target.
const walPoll = 200 * time.Millisecond

// await returns when the store has the WAL of the backup. A backup without it could not be restored.
func (s *Service) await(ctx context.Context, c CreateConfig, m *manifest.Manifest, archiving string) error {
	if _, err := c.DB.Exec(ctx, switchSegment, m.ID); err != nil {
		return fmt.Errorf("ending a segment of WAL: %w", err)
	}
	m.Segments = lsn.Names(m.Timeline, m.Start, m.Checks.At+1, m.SegmentBytes)
	ctx, cancel := context.WithTimeoutCause(ctx, c.WaitWAL, errWaited)
	defer cancel()
	for _, name := range m.Segments {
		for {
			if found, err := s.contains(ctx, walName(m.System, name)); found || err != nil {
				if err != nil {
					return err
				}
				break
			}
			select {
			case <-ctx.Done():
				return notArrived(context.Cause(ctx), name, c.WaitWAL, archiving)
			case <-time.After(walPoll):
			}
		}
	}
	return nil
}

var errWaited = errors.New("the WAL has not arrived")

func notArrived(cause error, segment string, after time.Duration, archiving string) error {
	if !errors.Is(cause, errWaited) {
		return cause
	}
	return errs.New(errs.Unavailable, "segment %s of WAL has not arrived in the target within %s; archive_mode is %s", segment, after, archiving).
		Try("set archive_mode = on and archive_command = 'gpuaas backup wal-push %%p', and read the log of PostgreSQL")
}

// publish writes the manifest.
func (s *Service) publish(ctx context.Context, c CreateConfig, m *manifest.Manifest) error {
	if err := c.DB.QueryRow(ctx, selectNow).Scan(&m.EndedAt); err != nil {
		return fmt.Errorf("reading the time: %w", err)
	}
	m.EndedAt = m.EndedAt.UTC()
	text, err := manifest.Encode(*m, c.Server)
	if err != nil {
		return err
	}
	return s.Store.Put(ctx, fileOf(m.ID, manifestFile), func(w io.Writer) error { _, err := w.Write(text); return err })
}
