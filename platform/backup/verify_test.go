package backup_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/platform/backup/manifest"
)

// TestVerifyComparesRows: a backup with other rows than its manifest has a fault, and the folder is removed.
func TestVerifyComparesRows(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if s.manifest.Checks.Rows["public.history"] != before {
		t.Fatalf("the manifest has %d rows of history, want %d", s.manifest.Checks.Rows["public.history"], before)
	}
	dir := t.TempDir()
	v, err := s.service().Verify(t.Context(), s.manifest.ID, dir, s.operator)
	check(t, err)
	if len(v.Faults) != 0 || v.Tables < 50 {
		t.Errorf("%d tables, faults %v", v.Tables, v.Faults)
	}
	planted, target := s.copied(t)
	s.sign(t, target, func(m *manifest.Manifest) { m.Checks.Rows["public.history"]++; m.Checks.Rows["public.lost"] = 0 })
	v, err = planted.Verify(t.Context(), s.manifest.ID, dir, s.operator)
	check(t, err)
	if want := []string{"table public.history has 5 rows, and had 6", "table public.lost is missing"}; !slices.Equal(v.Faults, want) {
		t.Errorf("faults %q, want %q", v.Faults, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestRowsAreExactWhileOthersWrite: the rows of the manifest are those at its position, with writers in between.
func TestRowsAreExactWhileOthersWrite(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.creating.Lock()
	defer s.creating.Unlock()
	s.exec(t, `CREATE TABLE load (n bigserial PRIMARY KEY)`)
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for ctx.Err() == nil {
				_, _ = s.db.Exec(ctx, `INSERT INTO load DEFAULT VALUES`)
				time.Sleep(20 * time.Millisecond) // between two of them is a quiet moment, also on a slow computer
			}
		})
	}
	m, err := s.service().Create(t.Context(), s.config())
	stop()
	writers.Wait()
	check(t, err)
	s.archive(t)
	if len(m.Checks.Rows) == 0 {
		t.Error("the manifest has no rows")
	}
	v, err := s.service().Verify(t.Context(), m.ID, t.TempDir(), s.operator)
	check(t, err)
	if len(v.Faults) != 0 {
		t.Errorf("faults %q", v.Faults)
	}
}
