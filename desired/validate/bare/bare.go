// Package bare is CUE by itself, on the schema of the product: what validation is
// measured against. Only the bench imports it.
package bare

import (
	"fmt"

	"cuelang.org/go/cue"
	"cuelang.org/go/encoding/json"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/definition"
)

// contextLife is the number of objects per CUE context. A context never frees what it has
// evaluated; beyond this number a new context costs less than the memory.
const contextLife = 500

// CUE is an evaluator with the schema in it.
type CUE struct {
	ctx         *cue.Context
	definitions map[desired.Kind]cue.Value
	left        int
}

// Check extracts, builds, unifies and validates one JSON document of a kind.
func (c *CUE) Check(kind desired.Kind, document []byte) error {
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
	return c.definitions[kind].Unify(c.ctx.BuildExpr(expr)).Validate(cue.Concrete(true))
}

func (c *CUE) compile() (err error) {
	c.ctx, c.definitions, err = definition.Compile()
	c.left = contextLife
	return err
}
