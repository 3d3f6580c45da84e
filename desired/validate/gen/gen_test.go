package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/parser"
)

// An edit of the definitions without go generate would leave the old JSON Schema and the old Go types in force.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	for name, of := range generators {
		want, err := of()
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(filepath.Join("../../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s is out of date: run go generate ./desired/validate", name)
		}
	}
}

// The generator rejects what it does not know: a definition must not mean one thing to CUE and another
// to the JSON Schema.
func TestUnknownExpressionsAreRejected(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`strings.MinRunes(3)`, `string & >"a"`, `>1`, `>=1.5`, `!=1`, `len(y)`, `number`, `1.5 | float`, `bytes`,
		`{[string]: int, a: 1}`, `{...}`, `{a: 1} | {b: 2}`, `string | [...{a: *1 | int}]`, `[1, ...int]`, `{a: int}`, `list.UniqueItems()`, `time.Duration`, `string + "b"`, `"\(y)"`,
	} {
		v := cuecontext.New().CompileString("import (\"strings\", \"time\", \"list\")\n_s: strings.ToUpper(\"\")\n_t: time.Second\n_l: list.Max([1])\ny: string\n#D: x: " + text)
		c := &converter{}
		if s, err := c.schema("#D", v.LookupPath(cue.ParsePath("#D"))); err == nil {
			t.Errorf("%s becomes %v", text, s)
		} else if !strings.Contains(err.Error(), "teach desired/validate/gen") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Values do not show comprehensions, so that their syntax is read.
func TestUnknownConditionsAreRejected(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`if a == b {c: 1}`, `if a > 1 {c: 1}`, `if a {c: 1}`, `for k, v in x {a: 1}`, `if a == "1" if b == "2" {c: 1}`, `if a == "1" {c: 1}, if b == "1" {c: 2}`, `if a == "1" {[string]: 1}`,
	} {
		f, err := parser.ParseFile("a.cue", "#D: {"+text+"}")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readConditions([]*ast.File{f}); err == nil || !strings.Contains(err.Error(), "teach desired/validate/gen") {
			t.Errorf("%s: %v", text, err)
		}
	}
	f, err := parser.ParseFile("a.cue", `x: [if a == "1" {c: 1}]`)
	if err != nil {
		t.Fatal(err)
	}
	c := &converter{}
	if c.conditions, err = readConditions([]*ast.File{f}); err != nil || c.unread() == nil {
		t.Errorf("a condition that belongs to no struct: %v", err)
	}
}
