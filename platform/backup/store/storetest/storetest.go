// Package storetest is the contract of the adapters of the store.
package storetest

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/platform/backup/store"
)

// Contract tests an empty store.
func Contract(t *testing.T, s store.Store) {
	t.Helper()
	put := func(name string, content []byte) error {
		return s.Put(t.Context(), name, func(w io.Writer) error { _, err := w.Write(content); return err })
	}
	large := make([]byte, 40<<20) // more than one request
	_, _ = rand.Read(large)
	files := map[string][]byte{"backups/a/manifest": []byte("a"), "backups/a/base.tar": large, "wal/1/000000010000000000000001": {}, "wal/12/x": []byte("x")}
	for name, content := range files {
		if err := put(name, content); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f, err := s.Get(t.Context(), name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s has %d bytes, want %d: %v", name, len(got), len(content), err)
		}
		if err := put(name, []byte("another")); !errors.Is(err, store.ErrExists) {
			t.Errorf("%s is written twice: %v", name, err)
		}
	}
	own := errors.New("of the writer")
	for name, content := range map[string][]byte{"wal/1/small": []byte("x"), "wal/1/large": large} {
		if err := s.Put(t.Context(), name, func(w io.Writer) error { _, _ = w.Write(content); return own }); !errors.Is(err, own) {
			t.Errorf("an error of the writer of %s: %v", name, err)
		}
		if _, err := s.Get(t.Context(), name); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("half of %s: %v", name, err)
		}
	}
	mustList(t, s, "wal/1", "wal/1/000000010000000000000001")
	mustList(t, s, "backups", "backups/a/base.tar", "backups/a/manifest")
	mustList(t, s, "missing")
	for range 2 {
		if err := s.Delete(t.Context(), "backups/a/manifest"); err != nil {
			t.Error(err)
		}
	}
	mustList(t, s, "backups", "backups/a/base.tar")
	if err := s.Clean(t.Context(), time.Unix(0, 0)); err != nil {
		t.Error(err)
	}
}

func mustList(t *testing.T, s store.Store, folder string, want ...string) {
	t.Helper()
	entries, err := s.List(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
		if time.Since(e.Modified) > time.Hour {
			t.Errorf("%+v", e)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("%s has %v, want %v", folder, names, want)
	}
}
