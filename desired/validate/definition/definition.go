// Package definition compiles the CUE of cue/schema and describes its constraints as text.
// Validation and the generator of the JSON Schema both read the definitions here, so that a value
// means the same to both.
package definition

import (
	"fmt"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/parser"

	schema "github.com/gpuaas/gpuaas/cue"
	"github.com/gpuaas/gpuaas/desired"
)

// Parse reads the embedded files. Each compilation needs its own syntax, because compiling resolves
// identifiers inside it. Comments are read with parser.ParseComments only.
func Parse(options ...parser.Option) ([]*ast.File, error) {
	entries, err := schema.Schema.ReadDir("schema")
	if err != nil {
		return nil, fmt.Errorf("reading embedded schema: %w", err)
	}
	var files []*ast.File
	for _, e := range entries {
		src, err := schema.Schema.ReadFile("schema/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading embedded schema: %w", err)
		}
		f, err := parser.ParseFile("schema", src, options...) // no name that an author's file can have
		if err != nil {
			return nil, fmt.Errorf("parsing embedded schema: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// Compile returns a fresh context and the definition of each kind in it.
func Compile(options ...parser.Option) (*cue.Context, map[desired.Kind]cue.Value, error) {
	files, err := Parse(options...)
	if err != nil {
		return nil, nil, err
	}
	inst := build.NewContext().NewInstance("schema", nil)
	for _, f := range files {
		if err := inst.AddSyntax(f); err != nil {
			return nil, nil, fmt.Errorf("compiling embedded schema: %w", err)
		}
	}
	ctx := cuecontext.New()
	root := ctx.BuildInstance(inst)
	if err := root.Validate(); err != nil {
		return nil, nil, fmt.Errorf("compiling embedded schema: %w", err)
	}
	definitions := map[desired.Kind]cue.Value{}
	for _, kind := range desired.Kinds() {
		d := root.LookupPath(cue.MakePath(cue.Def(string(kind))))
		if !d.Exists() {
			return nil, nil, fmt.Errorf("embedded schema has no definition of kind %s", kind)
		}
		definitions[kind] = d
	}
	return ctx, definitions, nil
}
