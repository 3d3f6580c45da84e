package main

import (
	"bytes"
	"os"
	"testing"
)

// An edit of the CUE without go generate would leave the old table in force.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Parallel()

	folder := os.DirFS("..")
	made, err := Generate(folder)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range made {
		have, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s is out of date: run go generate ./policies", name)
		}
	}
}
