// Package cue contains the contract of desired state: one closed definition for
// each kind, in CUE. It only embeds the files. They are evaluated by
// desired/validate, the only package that links the evaluator.
package cue

import "embed"

// Schema contains schema/*.cue, one package of that name.
//
//go:embed schema/*.cue
var Schema embed.FS

// JSONSchema is the schema of all kinds, generated from schema/*.cue by desired/validate/gen. Validation
// and editors use it. It never accepts what the definitions reject.
//
//go:embed gpuaas.schema.json
var JSONSchema []byte
