// Package cue holds the contract of desired state: one closed definition for
// each kind, in CUE. It only carries the files. Whoever evaluates them is
// desired/validate, and nobody else links the evaluator.
package cue

import "embed"

// Schema holds schema/*.cue, one package of that name.
//
//go:embed schema/*.cue
var Schema embed.FS

// JSONSchema helps editors with YAML and JSON files. It is made from the schema by
// a test of desired/validate, and says less.
//
//go:embed gpuaas.schema.json
var JSONSchema []byte
