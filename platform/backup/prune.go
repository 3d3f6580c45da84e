package backup

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
	"github.com/gpuaas/gpuaas/platform/backup/store"
)

// abandonedAfter is longer than any backup runs.
const abandonedAfter = 48 * time.Hour

// Pruned is the result of Prune.
type Pruned struct {
	Backups []string `json:"backups"`
	WAL     int      `json:"wal_files"`
	Left    int      `json:"interrupted_files"` // of backups without a manifest
}

// Due reports whether the last backup of a database system is older than a schedule permits. The target may also have
// those of other systems. A backup from the future means that the clock was set back.
func Due(all []Listed, system uint64, every time.Duration, now time.Time) bool {
	const early = 0.9 // a timer does not fire at exactly the same second
	for _, one := range all {
		ours := one.Fault == nil && one.Manifest.System == system
		if age := now.Sub(one.Manifest.StartedAt); ours && age >= 0 && age < time.Duration(early*float64(every)) {
			return false
		}
	}
	return true
}

// Prune removes backups that are older than the retention, WAL that no backup needs, and what interrupted backups left. The
// newest backup of each database system stays. A manifest that cannot be verified ends it: nothing is removed.
func (s *Service) Prune(ctx context.Context, v seal.Verifier, retention time.Duration) (p Pruned, err error) {
	p.Backups = []string{}
	all, err := s.List(ctx, v)
	if err != nil {
		return p, err
	}
	for _, one := range all {
		if one.Fault != nil {
			return p, fmt.Errorf("nothing is removed: %w", one.Fault)
		}
	}
	var left []manifest.Manifest
	now := s.Clock.Now()
	for i, one := range all {
		newest := !containsSystem(all[i+1:], one.Manifest.System)
		if newest || now.Sub(one.Manifest.EndedAt) <= retention {
			left = append(left, one.Manifest)
			continue
		}
		if err := s.remove(ctx, one.Manifest); err != nil {
			return p, err
		}
		p.Backups = append(p.Backups, one.ID)
	}
	if p.WAL, err = s.pruneWAL(ctx, left); err != nil {
		return p, err
	}
	p.Left, err = s.pruneInterrupted(ctx, left, now.Add(-abandonedAfter))
	return p, err
}

func containsSystem(all []Listed, system uint64) bool {
	for _, one := range all {
		if one.Manifest.System == system {
			return true
		}
	}
	return false
}

// remove deletes the manifest first: from then on the backup does not exist.
func (s *Service) remove(ctx context.Context, m manifest.Manifest) error {
	names := []string{manifestFile}
	for _, f := range m.Files {
		names = append(names, f.Name)
	}
	for _, name := range names {
		if err := s.Store.Delete(ctx, fileOf(m.ID, name)); err != nil {
			return errs.New(errs.Unavailable, "backup %s cannot be removed", m.ID).Because(err)
		}
	}
	return nil
}

// pruneWAL deletes WAL before the first segment of the oldest backup of its database system. Histories of timelines stay.
func (s *Service) pruneWAL(ctx context.Context, complete []manifest.Manifest) (n int, err error) {
	oldest := map[uint64]manifest.Manifest{}
	for _, m := range complete { // sorted
		if first, exists := oldest[m.System]; !exists || m.Start < first.Start {
			oldest[m.System] = m
		}
	}
	for system, m := range oldest {
		names, err := s.stored(ctx, system)
		if err != nil {
			return n, err
		}
		for _, name := range names {
			if lsn.IsHistory(name) {
				continue
			}
			if _, number := lsn.Split(name[:24], m.SegmentBytes); number >= m.Start.Number(m.SegmentBytes) {
				continue
			}
			if err := s.Store.Delete(ctx, walName(system, name)); err != nil {
				return n, fmt.Errorf("removing WAL: %w", err)
			}
			n++
		}
	}
	return n, nil
}

// pruneInterrupted deletes files of backups without a manifest. A running backup has younger ones.
func (s *Service) pruneInterrupted(ctx context.Context, complete []manifest.Manifest, before time.Time) (n int, err error) {
	ids := map[string]bool{}
	for _, m := range complete {
		ids[m.ID] = true
	}
	entries, err := s.Store.List(ctx, backupsDir)
	if err != nil {
		return 0, fmt.Errorf("listing backups: %w", err)
	}
	for _, e := range entries {
		if ids[path.Base(path.Dir(e.Name))] || !stale(e, before) {
			continue
		}
		if err := s.Store.Delete(ctx, e.Name); err != nil {
			return n, fmt.Errorf("removing an interrupted backup: %w", err)
		}
		n++
	}
	return n, s.Store.Clean(ctx, before)
}

// stale spares a manifest that appeared after the list was read.
func stale(e store.Entry, before time.Time) bool {
	return e.Modified.Before(before) && !strings.HasSuffix(e.Name, "/"+manifestFile)
}
