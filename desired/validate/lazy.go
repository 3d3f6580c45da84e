package validate

import (
	"sync"

	"github.com/gpuaas/gpuaas/desired"
)

// Lazy is a Checker that is compiled at its first use. Most servers never write an object through
// the API, and a compiled schema costs memory.
type Lazy func() (*Checker, error)

// NewLazy returns a Lazy that compiles once.
func NewLazy() Lazy { return sync.OnceValues(New) }

// Object returns the object with the defaults that its spec leaves out.
func (l Lazy) Object(o desired.Object) (desired.Object, error) {
	c, err := l()
	if err != nil {
		return o, err
	}
	return c.Object(o)
}

// Check returns the first finding of the object.
func (l Lazy) Check(o desired.Object) error {
	_, err := l.Object(o)
	return err
}
