package backup_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
	"github.com/gpuaas/gpuaas/platform/backup/store/folder"
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
	r, err := s.service().Restore(t.Context(), backup.RestoreConfig{ID: s.manifest.ID, Dir: dir, Operator: s.operator, Environment: "staging", Rename: true})
	check(t, err)
	if got := s.rows(t, dir); len(got) < before+after {
		t.Errorf("%d rows are restored, and at least %d were archived", len(got), before+after)
	}
	text, err := os.ReadFile(filepath.Join(dir, "data", "postgresql.conf"))
	check(t, err)
	if len(text) == 0 {
		t.Error("the configuration of the backup was lost")
	}
	text, err = os.ReadFile(filepath.Join(dir, "data", "postgresql.auto.conf"))
	if !r.ArchiveOff || r.Unconfigured || !strings.Contains(string(text), "\narchive_mode = 'off'\n") {
		t.Errorf("a copy archives: %+v, %q, %v", r, text, err)
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

func restoreSlowly(ctx context.Context, dir, id, to string) error {
	text, err := os.ReadFile(filepath.Join(dir, "operator.key"))
	if err != nil {
		return err
	}
	operator, err := seal.ParseOperator("identity", text)
	if err != nil {
		return err
	}
	target, err := folder.Open(filepath.Join(dir, "target"))
	if err != nil {
		return err
	}
	_, err = (&backup.Service{Store: target}).Restore(ctx, backup.RestoreConfig{ID: id, Dir: to, Operator: operator, Mark: func(context.Context, *pgxpool.Pool, string, time.Time) error {
		_, _ = io.WriteString(os.Stdout, "marking\n")
		select {} // until the test kills this process
	}})
	return err
}

// TestAKilledRestoreLeavesNoDatabase: a server could otherwise start a database that is not marked.
func TestAKilledRestoreLeavesNoDatabase(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	config := backup.RestoreConfig{ID: s.manifest.ID, Dir: filepath.Join(t.TempDir(), "restored"), Operator: s.operator, Point: backup.Point{At: s.commits[before]}}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "BACKUP_TEST_RESTORE="+s.dir, "BACKUP_TEST_ID="+config.ID, "BACKUP_TEST_TO="+config.Dir)
	out, err := cmd.StdoutPipe()
	check(t, err)
	cmd.Stderr = os.Stderr
	check(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "marking\n" {
		t.Fatalf("the process printed %q, %v", line, err)
	}
	if _, err := s.service().Restore(t.Context(), config); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("a second restore into the folder: %v", err)
	}
	check(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if _, err := os.Stat(filepath.Join(config.Dir, "data")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory of a killed restore: %v", err)
	}
	_, err = s.service().Restore(t.Context(), config)
	check(t, err)
	entries, err := os.ReadDir(config.Dir)
	check(t, err)
	if names := fmt.Sprint(entries); len(entries) != 2 || !strings.Contains(names, "data") || !strings.Contains(names, "lock") {
		t.Errorf("the folder contains %s", names)
	}
	if got := s.rows(t, config.Dir); len(got) != before+1 {
		t.Errorf("%d rows after the repetition", len(got))
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
