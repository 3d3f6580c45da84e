package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"cuelang.org/go/cue/parser"
)

// An edit of the schema without go generate would leave the old validators in force.
func TestGeneratedFileIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := Generate()
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../schema.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("schema.gen.go is out of date: run go generate ./desired/validate")
	}
}

// What the generator does not understand it refuses: a definition must not mean
// one thing to CUE and another to Go.
func TestUnknownExpressionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`"a" + "b"`, `len("x")`, `strings.MinRunes(3)`, `>1`, `>=x`, `=~x`, `#Nowhere`, `1.5`, `*bool | int`, `*"a" | *"b"`, `(*"a" | string) & =~"b"`,
		`{[string]: int, a: 1}`, `{if x == y {a: 1}}`, `{a: string, if b == "x" {c: 1}}`, `{...}`, `[1, 2]`, `[string, ...int]`, `{a: 1} & {b: 2}`, `time.Duration`,
		`{x: *"" | string, a: string, if x == "1" {a: "1"}, if x == "2" {a: "2"}}`, "\"\\(x)\"", `{for k, v in x {a: 1}}`, `null`,
	} {
		r, err := newReader()
		if err != nil {
			t.Fatal(err)
		}
		e, err := parser.ParseExpr("a.cue", text)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := r.form("x", e); err == nil {
			t.Errorf("%s is read as %+v", text, f)
		} else if !strings.Contains(err.Error(), "teach desired/validate/gen") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
