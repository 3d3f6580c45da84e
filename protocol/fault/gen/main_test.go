package main

import (
	"bytes"
	"os"
	"testing"
)

// An edit of the CUE without go generate would leave the old table in force.
func TestTheTableIsCurrent(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("../faults.cue")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Generate(src)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../faults.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("faults.gen.go is out of date: run go generate ./protocol/fault")
	}
	if _, err := Generate([]byte(`version: 1, actions: {}, faults: x: {meaning: string}`)); err == nil {
		t.Error("a table with holes was accepted")
	}
}
