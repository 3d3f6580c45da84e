package backup_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
)

// otherOperator trusts the same server, and has another identity.
func otherOperator(t *testing.T, s *site) seal.Operator {
	t.Helper()
	_, text, err := seal.Generate()
	check(t, err)
	other, err := seal.ParseOperator("identity", []byte(text))
	check(t, err)
	other.Verifier = s.server.Verifier()
	return other
}

// flip changes one byte of a file.
func flip(t *testing.T, file string, at int64) {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	text[(at+int64(len(text)))%int64(len(text))] ^= 1
	check(t, os.WriteFile(file, text, 0o600))
}

func cut(t *testing.T, file string, by int64) {
	t.Helper()
	info, err := os.Stat(file)
	check(t, err)
	check(t, os.Truncate(file, info.Size()-by))
}

// sign replaces the manifest by one that the server has signed.
func (s *site) sign(t *testing.T, dir string, change func(*manifest.Manifest)) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "backups", s.manifest.ID, "manifest"))
	check(t, err)
	m, err := manifest.Decode(s.manifest.ID, f, s.operator.Verifier)
	check(t, err)
	check(t, f.Close())
	change(&m)
	text, err := manifest.Encode(m, s.server)
	check(t, err)
	check(t, os.WriteFile(f.Name(), text, 0o600))
}

// TestDamage: each damage of the target is named, and no database is left.
func TestDamage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	base, text := "backups/"+s.manifest.ID+"/base.tar", "backups/"+s.manifest.ID+"/manifest"
	wal := func(name string) string { return filepath.Join("wal", filepath.Base(s.walFolder()), name) }
	first := s.manifest.Segments[0]
	timeline, number := lsn.Split(s.manifest.Segments[len(s.manifest.Segments)-1], s.manifest.SegmentBytes)
	later := lsn.Name(timeline, number+1, s.manifest.SegmentBytes)
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   errs.Code
		text   string
	}{
		"manifest altered":    {func(t *testing.T, dir string) { flip(t, filepath.Join(dir, text), -9) }, errs.SignatureInvalid, "the manifest of"},
		"signature altered":   {func(t *testing.T, dir string) { flip(t, filepath.Join(dir, text), 20) }, errs.SignatureInvalid, "the manifest of"},
		"manifest cut":        {func(t *testing.T, dir string) { cut(t, filepath.Join(dir, text), 1) }, errs.SignatureInvalid, "cut"},
		"manifest of another": {func(t *testing.T, dir string) { s.sign(t, dir, func(m *manifest.Manifest) { m.ID = "another" }) }, errs.SignatureInvalid, "is that of another"},
		"manifest with a path": {func(t *testing.T, dir string) {
			s.sign(t, dir, func(m *manifest.Manifest) { m.Files[0].Name = "../x" })
		}, errs.ValidationError, "file name"},
		"segment with a path": {func(t *testing.T, dir string) { s.sign(t, dir, func(m *manifest.Manifest) { m.Segments[0] = "../x" }) }, errs.ValidationError, "segment"},
		"later version":       {func(t *testing.T, dir string) { s.sign(t, dir, func(m *manifest.Manifest) { m.PostgreSQL = 99 }) }, errs.Conflict, "PostgreSQL 99"},
		"another cluster":     {func(t *testing.T, dir string) { s.sign(t, dir, func(m *manifest.Manifest) { m.System++ }) }, errs.Conflict, "database system"},
		"base altered":        {func(t *testing.T, dir string) { flip(t, filepath.Join(dir, base), -100) }, errs.DecryptionFailed, "base.tar"},
		"base cut":            {func(t *testing.T, dir string) { cut(t, filepath.Join(dir, base), 1) }, errs.DecryptionFailed, "cut"},
		"base longer":         {func(t *testing.T, dir string) { cut(t, filepath.Join(dir, base), -1) }, errs.DecryptionFailed, "altered"},
		"base of another writer": {func(t *testing.T, dir string) {
			f, err := os.Create(filepath.Join(dir, base))
			check(t, err)
			w, err := s.server.Encrypt(f) // the recipient is no secret
			check(t, err)
			_, err = w.Write(make([]byte, 1024)) // an archive without files
			check(t, errors.Join(err, w.Close(), f.Close()))
		}, errs.SignatureInvalid, "is not the one of the manifest"},
		"base missing":      {func(t *testing.T, dir string) { check(t, os.Remove(filepath.Join(dir, base))) }, errs.NotFound, "missing"},
		"WAL missing":       {func(t *testing.T, dir string) { check(t, os.Remove(filepath.Join(dir, wal(first)))) }, errs.NotFound, first},
		"later WAL missing": {func(t *testing.T, dir string) { check(t, os.Remove(filepath.Join(dir, wal(later)))) }, errs.NotFound, later},
		"WAL altered":       {func(t *testing.T, dir string) { flip(t, filepath.Join(dir, wal(first)), -100) }, errs.DecryptionFailed, first},
		"WAL cut":           {func(t *testing.T, dir string) { cut(t, filepath.Join(dir, wal(first)), 1) }, errs.DecryptionFailed, first},
		"header of WAL":     {func(t *testing.T, dir string) { flip(t, filepath.Join(dir, wal(first)), 60) }, errs.SignatureInvalid, first},
		"WAL of another name": {func(t *testing.T, dir string) {
			text, err := os.ReadFile(filepath.Join(dir, wal(later)))
			check(t, err)
			check(t, os.WriteFile(filepath.Join(dir, wal(first)), text, 0o600))
		}, errs.SignatureInvalid, first},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service, dir := s.copied(t)
			c.damage(t, dir)
			to := filepath.Join(t.TempDir(), "restored")
			_, err := service.Restore(t.Context(), backup.RestoreConfig{ID: s.manifest.ID, Dir: to, Operator: s.operator})
			if errs.CodeOf(err) != c.want || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v (%s), want %s with %q", err, errs.CodeOf(err), c.want, c.text)
			}
			if _, err := os.Stat(filepath.Join(to, "data")); err == nil {
				t.Error("a database was left")
			}
		})
	}
}
