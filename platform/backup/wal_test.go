package backup_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup"
	"github.com/gpuaas/gpuaas/platform/backup/store"
	"github.com/gpuaas/gpuaas/platform/backup/store/folder"
)

// TestPushIsIdempotent: the same file again succeeds, and another content is rejected and changes nothing.
func TestPushIsIdempotent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	service, dir := s.copied(t)
	name := s.manifest.Segments[0]
	content, err := service.Fetch(t.Context(), s.manifest.System, name, s.operator)
	check(t, err)
	data := s.dataWith(t)
	file := filepath.Join(data, "pg_wal", name)
	stored, err := os.ReadFile(filepath.Join(dir, "wal", filepath.Base(s.walFolder()), name))
	check(t, err)

	check(t, os.WriteFile(file, content, 0o600))
	check(t, service.Push(t.Context(), file, s.server))
	for what, change := range map[string]struct {
		content []byte
		want    errs.Code
	}{
		"another content":      {append(bytes.Clone(content[:len(content)-1]), content[len(content)-1]^1), errs.Conflict},
		"cut":                  {content[:len(content)-1], errs.ValidationError},
		"empty":                {nil, errs.ValidationError},
		"another database":     {append(append(bytes.Clone(content[:24]), 1, 2, 3, 4, 5, 6, 7, 8), content[32:]...), errs.Conflict},
		"another segment size": {append(bytes.Clone(content), content...), errs.ValidationError},
	} {
		check(t, os.WriteFile(file, change.content, 0o600))
		if err := service.Push(t.Context(), file, s.server); errs.CodeOf(err) != change.want {
			t.Errorf("%s: %v, want %s", what, err, change.want)
		}
	}
	if now, err := os.ReadFile(filepath.Join(dir, "wal", filepath.Base(s.walFolder()), name)); !bytes.Equal(now, stored) {
		t.Errorf("the stored file has changed: %v", err)
	}
}

// dataWith is a data directory with the identifier of the database system and nothing else.
func (s *site) dataWith(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	for _, name := range []string{"global", "pg_wal"} {
		check(t, os.Mkdir(filepath.Join(data, name), 0o700))
	}
	control, err := os.ReadFile(filepath.Join(s.dir, "pg", "data", "global", "pg_control"))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(data, "global", "pg_control"), control, 0o600))
	return data
}

func TestNamesOfWAL(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	data := s.dataWith(t)
	for _, name := range []string{"pg_control", "00000001000000000000000", "0000000100000000000000zz", "passwd"} {
		if err := s.service().Push(t.Context(), filepath.Join(data, "pg_wal", name), s.server); errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("push of %s: %v", name, err)
		}
		if _, err := s.service().Fetch(t.Context(), s.manifest.System, name, s.operator); errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("fetch of %s: %v", name, err)
		}
	}
	_, err := s.service().Fetch(t.Context(), s.manifest.System, "0000FFFF.history", s.operator)
	if errs.CodeOf(err) != errs.NotFound {
		t.Errorf("a missing history: %v", err)
	}
	if _, err := backup.System(t.TempDir()); errs.CodeOf(err) != errs.ValidationError || !strings.Contains(err.Error(), "data directory") {
		t.Errorf("the system of an empty folder: %v", err)
	}
}

// TestStoredWALIsEncrypted: no page of the database is in the target.
func TestStoredWALIsEncrypted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	files, err := filepath.Glob(filepath.Join(s.dir, "target", "*", "*", "*"))
	check(t, err)
	if len(files) < 5 {
		t.Fatalf("only %d files", len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		if filepath.Base(file) != "manifest" && bytes.Contains(text, []byte(strings.Repeat("x", 100))) {
			t.Errorf("%s has rows in plain text", file)
		}
	}
}

type limited struct{ store.Store }

func (limited) MaxExclusive() int64 { return 1 << 10 }

// TestALargeSegmentNeedsAnExclusiveStore: two servers could replace each other's segment.
func TestALargeSegmentNeedsAnExclusiveStore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	name := s.manifest.Segments[0]
	content, err := s.service().Fetch(t.Context(), s.manifest.System, name, s.operator)
	check(t, err)
	file := filepath.Join(s.dataWith(t), "pg_wal", name)
	check(t, os.WriteFile(file, content, 0o600))
	target, err := folder.Open(t.TempDir())
	check(t, err)
	service := &backup.Service{Store: limited{target}}
	if err := service.Push(t.Context(), file, s.server); errs.CodeOf(err) != errs.ValidationError || !strings.Contains(err.Error(), "second writer") {
		t.Errorf("%v", err)
	}
	if names, err := target.List(t.Context(), "wal"); err != nil || len(names) != 0 {
		t.Errorf("stored %v, %v", names, err)
	}
}
