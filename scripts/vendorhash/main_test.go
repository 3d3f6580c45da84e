package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The constant is how nixpkgs names an empty vendor folder.
func TestSRI(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	got, err := sri(empty)
	if err != nil || got != "sha256-pQpattmS9VmO3ZIQUFn66az8GSmB4IvYhTTCFn6SUmo=" {
		t.Errorf("an empty folder: %s, %v", got, err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := sri(full)
	if err != nil || before == got {
		t.Errorf("a file more changed nothing: %s, %v", before, err)
	}
	if err := os.Chmod(filepath.Join(full, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if after, err := sri(full); err != nil || after == before {
		t.Errorf("an executable bit changed nothing: %s, %v", after, err)
	}
}
