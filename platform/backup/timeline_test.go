package backup_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/platform/backup"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
)

// fork commits the row 2000 in a restored database, and pushes its WAL, which is on another timeline.
func (s *site) fork(t *testing.T, service *backup.Service, dir string) {
	t.Helper()
	cluster, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: dir, Params: map[string]string{
		"archive_mode": "off", "wal_level": "replica", "wal_keep_size": "100MB", // a checkpoint removes no segment
	}})
	check(t, err)
	db, err := pg.Open(t.Context(), strings.Replace(cluster.URL(), "/postgres?", "/"+s.manifest.Database+"?", 1), "test", 1)
	check(t, err)
	_, err = db.Exec(t.Context(), `INSERT INTO history VALUES (2000)`)
	check(t, err)
	var last string
	check(t, db.QueryRow(t.Context(), `SELECT pg_walfile_name(pg_switch_wal())`).Scan(&last))
	db.Close()
	check(t, cluster.Stop(pgcluster.Fast))
	entries, err := os.ReadDir(filepath.Join(dir, "data", "pg_wal"))
	check(t, err)
	pushed := 0
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, last[:8]) && (lsn.IsHistory(name) || lsn.IsSegment(name) && name <= last) {
			check(t, service.Push(t.Context(), filepath.Join(dir, "data", "pg_wal", name), s.server))
			pushed++
		}
	}
	if pushed < 2 {
		t.Fatalf("%d files of the timeline were pushed", pushed)
	}
}

// TestRestoreFollowsATimeline: after a restore and further commits the target has two histories of one backup.
func TestRestoreFollowsATimeline(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	service, _ := s.copied(t)
	restore := func(p backup.Point) (string, uint32) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "restored")
		r, err := service.Restore(t.Context(), backup.RestoreConfig{ID: s.manifest.ID, Dir: dir, Operator: s.operator, Point: p})
		check(t, err)
		return dir, r.Timeline
	}
	first, _ := restore(backup.Point{At: s.commits[before]})
	s.fork(t, service, first)
	latest, timeline := restore(backup.Point{})
	if got := s.rows(t, latest); len(got) != before+2 || got[before+1] != 2000 || timeline != s.manifest.Timeline+2 {
		t.Errorf("the latest timeline has the rows %v and ends on timeline %d", got, timeline)
	}
	older, _ := restore(backup.Point{Timeline: s.manifest.Timeline})
	if got := s.rows(t, older); len(got) < before+after || slices.Contains(got, 2000) {
		t.Errorf("the first timeline has %d rows", len(got))
	}
}
