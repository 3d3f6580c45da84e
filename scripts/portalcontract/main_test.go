package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

const root = "../../"

// TestTypesAreCurrent compares the types of the portal with the contract, without Node.
func TestTypesAreCurrent(t *testing.T) {
	t.Parallel()

	input, err := typesOf(root + contract)
	if err != nil {
		t.Fatal(err)
	}
	types, err := os.ReadFile(root + "web/src/api/schema.gen.ts")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(input)
	if head, _, _ := strings.Cut(string(types), "\n"); !strings.HasSuffix(head, " "+hex.EncodeToString(sum[:])) {
		t.Error("the contract has changed: run `npm run api` in web/, and `make portal` if a screen changes")
	}
}

// TestOnlyTypesCount: a text of the contract changes no type, a property does.
func TestOnlyTypesCount(t *testing.T) {
	t.Parallel()

	reduced := reduce(map[string]any{
		"summary": "x", "x-urn": "y", "type": "object",
		"properties": map[string]any{"summary": map[string]any{"type": "string", "description": "z"}},
	}, false).(map[string]any)
	properties := reduced["properties"].(map[string]any)
	if _, ok := reduced["summary"]; ok || reduced["x-urn"] != nil || len(properties["summary"].(map[string]any)) != 1 {
		t.Errorf("%v", reduced)
	}
}
