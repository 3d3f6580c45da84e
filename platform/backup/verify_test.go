package backup_test

import (
	"os"
	"slices"
	"testing"

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
