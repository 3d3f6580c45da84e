// Command portalcontract prints the contract as JSON with what changes a type, and nothing else: `npm run api` in web/
// generates the TypeScript types of the portal from it. A changed description changes no type.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"gopkg.in/yaml.v3"
)

const contract = "api/openapi/openapi.yaml"

func main() {
	out, err := typesOf(contract)
	if err != nil {
		fmt.Fprintln(os.Stderr, "portalcontract:", err)
		os.Exit(1)
	}
	_, _ = os.Stdout.Write(out)
}

// typesOf returns the contract in a file without the parts that change no type.
func typesOf(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the contract: %w", err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(reduce(doc, false)); err != nil {
		return nil, fmt.Errorf("encoding the contract: %w", err)
	}
	return out.Bytes(), nil
}

// untyped are the keys that change no type.
var untyped = map[string]bool{
	"summary": true, "tags": true, "security": true, "example": true, "examples": true, "servers": true,
	"pattern": true, "format": true, "default": true, "minimum": true, "maximum": true, "exclusiveMinimum": true,
	"minLength": true, "maxLength": true, "minItems": true, "maxItems": true, "uniqueItems": true, "maxProperties": true,
}

// reduce removes the keys that change no type. The keys below properties and other maps of names are names, and stay.
// The description of a response becomes empty, because OpenAPI requires one.
func reduce(value any, names bool) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, below := range v {
			switch {
			case names:
				out[key] = reduce(below, false)
			case key == "description":
				if isResponse(v) {
					out[key] = ""
				}
			case untyped[key] || strings.HasPrefix(key, "x-"):
			default:
				out[key] = reduce(below, named[key])
			}
		}
		return out
	case []any:
		for i := range v {
			v[i] = reduce(v[i], false)
		}
	}
	return value
}

// named are the keys whose values are maps of names.
var named = map[string]bool{
	"properties": true, "paths": true, "schemas": true, "parameters": true, "responses": true, "headers": true,
	"requestBodies": true, "content": true, "securitySchemes": true,
}

func isResponse(v map[string]any) bool {
	return v["in"] == nil && v["type"] == nil && v["schema"] == nil && v["enum"] == nil
}
