package record_test

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/platform/backup/record"
)

// TestAges: a verification with a fault does not count, and before the first one the oldest backup counts.
func TestAges(t *testing.T) {
	t.Parallel()
	tx := pgtest.Tx(t)
	s := &record.Service{DB: tx}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ages := func() (backup, verified time.Duration) {
		t.Helper()
		a, found, err := s.Ages(t.Context())
		must(err)
		if !found {
			t.Fatal("no backup")
		}
		return a.Backup.Truncate(time.Hour), a.Verified.Truncate(time.Hour)
	}
	if _, found, err := s.Ages(t.Context()); found || err != nil {
		t.Fatalf("ages without a backup: %v", err)
	}
	var now time.Time
	must(tx.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now))
	at := func(id string, hours int) manifest.Manifest {
		end := now.Add(-time.Duration(hours) * time.Hour)
		return manifest.Manifest{ID: id, StartedAt: end, EndedAt: end, Files: []manifest.File{{Bytes: 2}, {Bytes: 3}}}
	}
	older, newer := at("older", 50), at("newer", 26)
	must(s.Created(t.Context(), older))
	must(s.Created(t.Context(), newer))
	must(s.Created(t.Context(), newer)) // again
	if backup, verified := ages(); backup != 26*time.Hour || verified != 50*time.Hour {
		t.Errorf("%s, %s", backup, verified)
	}
	must(s.Verified(t.Context(), newer, 1))
	if _, verified := ages(); verified != 50*time.Hour {
		t.Errorf("after a fault: %s", verified)
	}
	must(s.Verified(t.Context(), at("not recorded", 30), 0))
	if backup, verified := ages(); backup != 26*time.Hour || verified != 0 {
		t.Errorf("%s, %s", backup, verified)
	}
	var size int64
	must(tx.QueryRow(t.Context(), `SELECT size_bytes FROM backups WHERE id = 'newer'`).Scan(&size))
	if size != 5 {
		t.Errorf("%d bytes", size)
	}
	must(s.Removed(t.Context(), []string{"older", "newer", "not recorded"}))
	if _, found, err := s.Ages(t.Context()); found || err != nil {
		t.Errorf("removed backups have ages: %v", err)
	}
}
