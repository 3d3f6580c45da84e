package folder

import (
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaas/platform/backup/store"
)

// TestAFileThatExistsIsDurable: a killed Put may have linked the file, without the folders on the disk.
func TestAFileThatExistsIsDurable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var synced []string
	s.fsync = func(f *os.File) error { synced = append(synced, f.Name()); return f.Sync() }
	put := func() error {
		return s.Put(t.Context(), "wal/7/x", func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err })
	}
	want := []string{dir + "/wal/7/x", dir + "/wal/7", dir + "/wal", dir + "/."}
	if err := put(); err != nil || len(synced) != 5 || !slices.Equal(synced[1:], want) { // the first is the temporary file
		t.Errorf("%v, synced %q", err, synced)
	}
	synced = nil
	if err := put(); !errors.Is(err, store.ErrExists) || !slices.Equal(synced, want) {
		t.Errorf("again: %v, synced %q, want %q", err, synced, want)
	}
	own := errors.New("the disk fails")
	s.fsync = func(*os.File) error { return own }
	if err := put(); !errors.Is(err, own) || errors.Is(err, store.ErrExists) {
		t.Errorf("on a failing disk: %v", err)
	}
}
