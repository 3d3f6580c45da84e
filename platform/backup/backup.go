// Package backup makes encrypted backups of PostgreSQL and restores them. A backup is a base backup of pg_basebackup and
// the write-ahead log (WAL) after it, which PostgreSQL archives with Push. A signed manifest describes it.
//
//	backups/ID/base.tar    the base backup, encrypted
//	backups/ID/manifest    written last
//	wal/SYSTEM/SEGMENT     WAL of one database system, encrypted
package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
	"github.com/gpuaas/gpuaas/platform/backup/store"
)

const (
	backupsDir   = "backups"
	walDir       = "wal"
	manifestFile = "manifest"
	baseFile     = "base.tar"
)

// Service makes and restores the backups of one store.
type Service struct {
	Store store.Store
	Clock clock.Clock
	Log   *slog.Logger
}

func fileOf(id, name string) string { return path.Join(backupsDir, id, name) }

// Manifest reads and verifies the manifest of a backup.
func (s *Service) Manifest(ctx context.Context, id string, v seal.Verifier) (m manifest.Manifest, err error) {
	if err := manifest.CheckID(id); err != nil {
		return m, err
	}
	f, err := s.Store.Get(ctx, fileOf(id, manifestFile))
	if errors.Is(err, store.ErrNotFound) {
		return m, errs.New(errs.NotFound, "there is no backup %s", id).Try("gpuaas backup list")
	}
	if err != nil {
		return m, fmt.Errorf("reading the manifest of %s: %w", id, err)
	}
	defer func() { _ = f.Close() }()
	return manifest.Decode(id, f, v)
}

// Listed is a backup with its manifest, or with the fault of the manifest.
type Listed struct {
	ID       string
	Manifest manifest.Manifest
	Fault    error
}

// List returns the complete backups. They are sorted by their positions in the WAL and not by their times, because a
// clock can be set back.
func (s *Service) List(ctx context.Context, v seal.Verifier) ([]Listed, error) {
	entries, err := s.Store.List(ctx, backupsDir)
	if err != nil {
		return nil, fmt.Errorf("listing backups: %w", err)
	}
	var all []Listed
	for _, e := range entries {
		dir, name := path.Split(e.Name)
		if name != manifestFile {
			continue
		}
		one := Listed{ID: path.Base(strings.TrimSuffix(dir, "/"))}
		one.Manifest, one.Fault = s.Manifest(ctx, one.ID, v)
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b Listed) int { return compare(a.Manifest, b.Manifest) })
	return all, nil
}

// compare sorts the backups of one database system by their positions.
func compare(a, b manifest.Manifest) int {
	if a.System != b.System {
		return a.StartedAt.Compare(b.StartedAt)
	}
	return cmp.Or(cmp.Compare(a.Timeline, b.Timeline), cmp.Compare(a.Start, b.Start))
}

// full explains an error of a store without space.
func full(err error) error {
	if errors.Is(err, store.ErrFull) {
		return errs.New(errs.Unavailable, "the target of backups has no space left").Try("free space, or delete old backups with gpuaas backup prune").Because(err)
	}
	return err
}
