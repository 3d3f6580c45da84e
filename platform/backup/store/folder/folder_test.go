package folder_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup/store/folder"
	"github.com/gpuaas/gpuaas/platform/backup/store/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	s, err := folder.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	storetest.Contract(t, s)
}

// TestClean removes files of killed writers, and no younger ones.
func TestClean(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"old": 3 * time.Hour, "young": time.Minute} {
		file := filepath.Join(dir, "tmp", name)
		if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chtimes(file, now.Add(-age), now.Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Clean(t.Context(), now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) != 1 || left[0].Name() != "young" {
		t.Errorf("%v, %v", left, err)
	}
}

// TestNamesStayInside: names that lead out of the folder are rejected also behind a link.
func TestNamesStayInside(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "target")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Symlink(parent, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	s, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../outside", "link/outside", "/outside"} {
		if err := s.Put(t.Context(), name, func(io.Writer) error { return nil }); err == nil {
			t.Errorf("%s is written", name)
		}
	}
	if entries, _ := os.ReadDir(parent); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
	if _, err := folder.Open(filepath.Join(parent, "missing")); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("a missing folder: %v", err)
	}
}
