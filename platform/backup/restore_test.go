package backup_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup"
)

// TestRestoreToPointsInTime restores to random times and compares the rows with those that had been committed.
func TestRestoreToPointsInTime(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	points := []int{before, before + after - 2} // the first after the backup, and the last that has a later commit
	for range 3 {
		points = append(points, before+rand.IntN(after-1))
	}
	t.Logf("points: %v", points)
	for _, n := range points {
		dir := filepath.Join(t.TempDir(), "restored")
		r, err := s.service().Restore(t.Context(), backup.RestoreConfig{
			ID: s.manifest.ID, Dir: dir, Operator: s.operator, Environment: "production", Point: backup.Point{At: s.commits[n]},
		})
		check(t, err)
		if r.Timeline != s.manifest.Timeline+1 {
			t.Errorf("timeline %d after a restore from timeline %d", r.Timeline, s.manifest.Timeline)
		}
		if got := s.rows(t, dir); len(got) != n+1 || got[n] != int32(n) {
			t.Errorf("at commit %d the restored database has %d rows up to %v", n, len(got), got[len(got)-1:])
		}
	}
}

// TestRestoreToTheEnd restores everything that was archived, and leaves the configuration of the backup in place.
func TestRestoreToTheEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dir := filepath.Join(t.TempDir(), "restored")
	_, err := s.service().Restore(t.Context(), backup.RestoreConfig{ID: s.manifest.ID, Dir: dir, Operator: s.operator, Environment: "staging", Rename: true})
	check(t, err)
	if got := s.rows(t, dir); len(got) < before+after {
		t.Errorf("%d rows are restored, and at least %d were archived", len(got), before+after)
	}
	text, err := os.ReadFile(filepath.Join(dir, "data", "postgresql.conf"))
	check(t, err)
	if len(text) == 0 {
		t.Error("the configuration of the backup was lost")
	}
	entries, err := os.ReadDir(filepath.Join(dir, "data"))
	check(t, err)
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".of-backup" || e.Name() == "recovery.signal" {
			t.Errorf("%s was left", e.Name())
		}
	}
}

// TestARestoreIsMarked: the mark is stored in the restored database, and a database without its mark is not left.
func TestARestoreIsMarked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	config := backup.RestoreConfig{ID: s.manifest.ID, Dir: filepath.Join(t.TempDir(), "restored"), Operator: s.operator, Point: backup.Point{At: s.commits[before]}}
	config.Mark = func(ctx context.Context, db *pgxpool.Pool, id string, to time.Time) error {
		if id != s.manifest.ID || !to.Equal(s.commits[before]) {
			t.Errorf("marked %s at %s", id, to)
		}
		_, err := db.Exec(ctx, `INSERT INTO history VALUES (1000)`)
		return err
	}
	_, err := s.service().Restore(t.Context(), config)
	check(t, err)
	if got := s.rows(t, config.Dir); len(got) != before+2 || got[before+1] != 1000 {
		t.Errorf("rows %v", got)
	}
	config.Dir = filepath.Join(t.TempDir(), "restored")
	own := errors.New("not marked")
	config.Mark = func(context.Context, *pgxpool.Pool, string, time.Time) error { return own }
	if _, err := s.service().Restore(t.Context(), config); !errors.Is(err, own) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(config.Dir, "data")); err == nil {
		t.Error("a database without its mark was left")
	}
}

// TestRejectedRestores: no row leaves anything in the folder.
func TestRejectedRestores(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	empty := backup.RestoreConfig{ID: s.manifest.ID, Operator: s.operator}
	for name, c := range map[string]struct {
		change func(*backup.RestoreConfig)
		want   errs.Code
	}{
		"of another environment":   {func(c *backup.RestoreConfig) { c.Environment = "staging" }, errs.Conflict},
		"before the backup":        {func(c *backup.RestoreConfig) { c.Point.At = s.commits[0] }, errs.Conflict},
		"before its last position": {func(c *backup.RestoreConfig) { c.Point.LSN = s.manifest.Start }, errs.Conflict},
		"behind the WAL":           {func(c *backup.RestoreConfig) { c.Point.At = s.commits[0].AddDate(1, 0, 0) }, errs.NotFound},
		"without the backup":       {func(c *backup.RestoreConfig) { c.ID = "nothing" }, errs.NotFound},
		"of a path":                {func(c *backup.RestoreConfig) { c.ID = "../" + c.ID }, errs.ValidationError},
		"with another identity":    {func(c *backup.RestoreConfig) { c.Operator = otherOperator(t, s) }, errs.DecryptionFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := empty
			config.Dir = filepath.Join(t.TempDir(), "restored")
			c.change(&config)
			_, err := s.service().Restore(t.Context(), config)
			if errs.CodeOf(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
			entries, _ := os.ReadDir(config.Dir)
			if i := slices.IndexFunc(entries, func(e os.DirEntry) bool { return e.Name() != "lock" }); i >= 0 {
				t.Errorf("%s was left", entries[i].Name())
			}
		})
	}
}

// TestRestoreRejectsAFolderInUse: neither a running server nor any other content is touched.
func TestRestoreRejectsAFolderInUse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	full := t.TempDir()
	check(t, os.WriteFile(filepath.Join(full, "mine"), []byte("mine"), 0o600))
	for _, dir := range []string{full, filepath.Join(s.dir, "pg"), filepath.Join(s.dir, "pg", "data")} {
		_, err := s.service().Restore(t.Context(), backup.RestoreConfig{ID: s.manifest.ID, Dir: dir, Operator: s.operator})
		if errs.CodeOf(err) != errs.Conflict {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(full, "mine")); string(text) != "mine" {
		t.Errorf("the file is %q, %v", text, err)
	}
	check(t, s.db.Ping(t.Context()))
}
