// Package bare is CUE by itself, on the schema of the product: what validation is
// measured against. Only the bench imports it.
package bare

import (
	"fmt"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/encoding/json"

	schema "github.com/gpuaas/gpuaas/cue"
)

// contextLife is how many objects a context sees: more cost more than a new one.
const contextLife = 500

// CUE is an evaluator with the schema in it.
type CUE struct {
	ctx  *cue.Context
	root cue.Value
	left int
}

// Check extracts, builds, unifies and validates one JSON document of a kind.
func (c *CUE) Check(kind string, document []byte) error {
	if c.left == 0 {
		if err := c.compile(); err != nil {
			return err
		}
	}
	c.left--
	expr, err := json.Extract("object.json", document)
	if err != nil {
		return fmt.Errorf("extracting: %w", err)
	}
	definition := c.root.LookupPath(cue.MakePath(cue.Def(kind)))
	return definition.Unify(c.ctx.BuildExpr(expr)).Validate(cue.Concrete(true))
}

func (c *CUE) compile() error {
	inst := build.NewContext().NewInstance("schema", nil)
	entries, err := schema.Schema.ReadDir("schema")
	if err != nil {
		return fmt.Errorf("reading embedded schema: %w", err)
	}
	for _, e := range entries {
		src, err := schema.Schema.ReadFile("schema/" + e.Name())
		if err != nil {
			return fmt.Errorf("reading embedded schema: %w", err)
		}
		f, err := parser.ParseFile(e.Name(), src)
		if err != nil {
			return fmt.Errorf("parsing embedded schema: %w", err)
		}
		if err := inst.AddSyntax(f); err != nil {
			return fmt.Errorf("compiling embedded schema: %w", err)
		}
	}
	c.ctx = cuecontext.New()
	c.root, c.left = c.ctx.BuildInstance(inst), contextLife
	return c.root.Err()
}
