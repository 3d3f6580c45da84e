package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/parser"
	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/desired/validate/definition"
)

// An edit of the definitions without go generate would leave the old JSON Schema, Go types and contract in force.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	for name, of := range generators {
		have, err := os.ReadFile(filepath.Join("../../..", name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := of(have)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s is out of date: run go generate ./desired/validate", name)
		}
	}
}

// Clients and the request validator read these schemas. Conditions between fields are left to the JSON Schema.
func TestContractHasTheSpecs(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromFile("../../../api/openapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		schema, value string
		valid         bool
	}{
		{"NodeSpec", `{"sku": "h100", "region": "eu-1", "gpus": 1024, "address": "[2001:db8::1]:22"}`, true},
		{"NodeSpec", `{"sku": "h100", "region": "eu-1", "gpus": 8, "onboarding": "simulated", "hardware": "h100-8"}`, true},
		{"NodeSpec", `{"sku": "h100", "region": "eu-1", "gpus": 8, "hardware": ""}`, true},
		{"NodeSpec", `{"sku": "h100", "region": "eu-1", "gpus": 8, "hardware": "h900-8"}`, false},
		{"NodeSpec", `{"sku": "h100", "region": "eu-1", "gpus": 1025}`, false},
		{"NodeSpec", `{"sku": "H100", "region": "eu-1", "gpus": 8}`, false},
		{"NodeSpec", `{"sku": "h100", "region": "eu-1"}`, false},
		{"NodeSpec", `{"sku": "h100", "region": "eu-1", "gpus": 8, "gpuz": 8}`, false},
		{"NodeRequest", `{"name": "gpu-07", "labels": {"rack": "a"}, "sku": "h100", "region": "eu-1", "gpus": 8, "serials": ["1", "2"]}`, true},
		{"NodeRequest", `{"sku": "h100", "region": "eu-1", "gpus": 8}`, false},
		{"SKUSpec", `{"gpuModel": "NVIDIA L40S", "memoryGiB": 48, "price": {"currency": "EUR", "amountMinor": 89}}`, true},
		{"SKUSpec", `{"gpuModel": "NVIDIA L40S", "memoryGiB": 48, "price": {"currency": "EUR"}}`, false},
		{"EnvironmentSpec", `{"region": "eu-1", "trustDomain": "example.org", "signIn": {"issuer": "", "roles": {"ops": "operator"}}}`, true},
		{"EnvironmentSpec", `{"region": "eu-1", "trustDomain": "example.org", "signIn": {"roles": {"ops": "owner"}}}`, false},
		{"PolicySpec", `{"key": "billing.window_seconds", "value": 60}`, true},
		{"PolicySpec", `{"key": "billing.window_seconds", "scope": "somewhere", "value": 60}`, false},
	} {
		var value any
		if err := json.Unmarshal([]byte(c.value), &value); err != nil {
			t.Fatal(err)
		}
		if err := doc.Components.Schemas[c.schema].Value.VisitJSON(value); err == nil != c.valid {
			t.Errorf("%s: %s: got %v", c.schema, c.value, err)
		}
	}
}

// The generator rejects unknown expressions: a definition must not mean one value set to CUE and
// another to the JSON Schema.
func TestUnknownExpressionsAreRejected(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`strings.MinRunes(3)`, `string & >"a"`, `>1`, `>=1.5`, `!=1`, `len(y)`, `number`, `1.5 | float`, `bytes`,
		`{[string]: int, a: 1}`, `{...}`, `{a: 1} | {b: 2}`, `string | [...{a: *1 | int}]`, `[1, ...int]`, `{a: int}`, `list.UniqueItems()`, `time.Duration`, `string + "b"`, `"\(y)"`,
	} {
		v := cuecontext.New().CompileString("import (\"strings\", \"time\", \"list\")\n_s: strings.ToUpper(\"\")\n_t: time.Second\n_l: list.Max([1])\ny: string\n#D: x: " + text)
		c := &converter{describe: definition.Expectation}
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
