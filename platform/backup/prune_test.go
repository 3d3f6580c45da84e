package backup_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
)

// later adds a signed backup that begins some segments after the one of the site.
func (s *site) later(t *testing.T, dir, id string, segments uint64, ended time.Time) {
	t.Helper()
	m := s.manifest
	m.ID, m.StartedAt, m.EndedAt = id, ended, ended
	m.Start += lsn.LSN(segments * m.SegmentBytes)
	m.End, m.Checks.At = max(m.End, m.Start), max(m.Checks.At, m.Start)
	text, err := manifest.Encode(m, s.server)
	check(t, err)
	check(t, os.Mkdir(filepath.Join(dir, "backups", id), 0o700))
	check(t, os.WriteFile(filepath.Join(dir, "backups", id, "manifest"), text, 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "backups", id, "base.tar"), nil, 0o600))
}

// TestPrune removes the old backup with its WAL, and never the newest one.
func TestPrune(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	service, dir := s.copied(t)
	now := s.manifest.EndedAt.Add(40 * 24 * time.Hour)
	service.Clock = clock.At(func() time.Time { return now })
	month := 30 * 24 * time.Hour

	p, err := service.Prune(t.Context(), s.operator.Verifier, month) // the only one
	check(t, err)
	if len(p.Backups) != 0 {
		t.Errorf("the only backup was removed: %+v", p)
	}
	s.later(t, dir, "later", 2, now.Add(-2*month))
	s.later(t, dir, "latest", 3, now.Add(-time.Hour))
	check(t, os.Mkdir(filepath.Join(dir, "backups", "interrupted"), 0o700))
	old := filepath.Join(dir, "backups", "interrupted", "base.tar")
	check(t, os.WriteFile(old, nil, 0o600))
	check(t, os.Chtimes(old, now.Add(-month), now.Add(-month)))
	p, err = service.Prune(t.Context(), s.operator.Verifier, month)
	check(t, err)
	want := []string{s.manifest.ID, "later"}
	if !slices.Equal(p.Backups, want) || p.Left < 1 || p.WAL < 3 {
		t.Errorf("%+v, want %v", p, want)
	}
	all, err := service.List(t.Context(), s.operator.Verifier)
	check(t, err)
	if len(all) != 1 || all[0].ID != "latest" {
		t.Errorf("%d backups are left", len(all))
	}
	for n := range uint64(6) {
		name := lsn.Name(s.manifest.Timeline, s.manifest.Start.Number(s.manifest.SegmentBytes)+n, s.manifest.SegmentBytes)
		_, err := os.Stat(filepath.Join(dir, "wal", filepath.Base(s.walFolder()), name))
		if exists := err == nil; exists != (n >= 3) {
			t.Errorf("segment %d exists: %v", n, exists)
		}
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("a file of an interrupted backup was left")
	}
}

// TestPruneStopsAtAnAlteredManifest: the WAL that it needs is not known.
func TestPruneStopsAtAnAlteredManifest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	service, dir := s.copied(t)
	now := s.manifest.EndedAt.AddDate(1, 0, 0)
	service.Clock = clock.At(func() time.Time { return now })
	s.later(t, dir, "latest", 3, now)
	flip(t, filepath.Join(dir, "backups", "latest", "manifest"), -5)
	if _, err := service.Prune(t.Context(), s.operator.Verifier, time.Hour); errs.CodeOf(err) != errs.SignatureInvalid {
		t.Errorf("%v", err)
	}
	if _, err := service.Manifest(t.Context(), s.manifest.ID, s.operator.Verifier); err != nil {
		t.Errorf("the backup was removed: %v", err)
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	at := func(hours int) []backup.Listed {
		return []backup.Listed{{Manifest: manifest.Manifest{System: 1, StartedAt: now.Add(-time.Duration(hours) * time.Hour)}}}
	}
	other := at(1)
	other[0].Manifest.System = 2
	faulty := at(1)
	faulty[0].Fault = errs.New(errs.SignatureInvalid, "altered")
	for name, c := range map[string]struct {
		all  []backup.Listed
		want bool
	}{
		"none": {nil, true}, "fresh": {at(1), false}, "old": {at(24), true}, "a day by a timer": {at(22), true},
		"of the future": {at(-5), true}, "an altered one": {faulty, true},
		"another system": {other, true}, "another system and ours": {append(at(1), other...), false},
	} {
		if backup.Due(c.all, 1, 24*time.Hour, now) != c.want {
			t.Errorf("%s is due: %v", name, !c.want)
		}
	}
}
