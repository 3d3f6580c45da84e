// Package place chooses slots for an allocation. It is pure and deterministic
// down to its ties, so that a choice can be explained and replayed.
package place

import (
	"cmp"
	"slices"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Slot is one free slot.
type Slot struct {
	ID    ids.Slot
	GPU   string // UUID of its device
	Index int    // of the device on its node
}

// Node is one node with its free slots, sorted by Index.
type Node struct {
	ID     ids.Node
	Name   string
	Region string
	Free   []Slot
}

// Choose returns n slots of one node, or false when no node has as many. Best
// fit: the node that has the fewest left over, so that whole boards stay free for
// those who need them; among equals the first by name.
func Choose(nodes []Node, n int) (Node, bool) {
	fits := slices.DeleteFunc(slices.Clone(nodes), func(c Node) bool { return len(c.Free) < n })
	if n < 1 || len(fits) == 0 {
		return Node{}, false
	}
	best := slices.MinFunc(fits, func(a, b Node) int {
		return cmp.Or(cmp.Compare(len(a.Free), len(b.Free)), cmp.Compare(a.Name, b.Name))
	})
	best.Free = best.Free[:n:n]
	return best, true
}
