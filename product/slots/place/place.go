// Package place chooses slots for an allocation. It is pure and deterministic
// down to its ties, so that a choice can be explained and replayed.
package place

import (
	"cmp"
	"maps"
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
	// Failures counts its provisionings that failed since the last one that succeeded.
	Failures int
}

// Rules are the policies of a placement.
type Rules struct {
	Spread     bool            // prefer the node with the most free slots, not the one with the fewest
	Regions    map[string]bool // regions with another value of Spread
	AvoidAfter int             // failures after which a node is chosen last; 0: never
	Excluded   map[string]bool // names of nodes whose isolation no driver delivers
}

func (r Rules) spread(region string) bool {
	if spread, ok := r.Regions[region]; ok {
		return spread
	}
	return r.Spread
}

func (r Rules) avoids(n Node) int {
	if r.AvoidAfter > 0 && n.Failures >= r.AvoidAfter {
		return 1
	}
	return 0
}

// Choose returns n slots of one node, or false if no node has as many. The default is best fit: the node
// that has the fewest left over, so that whole boards stay free for those who need them. Among equal nodes
// it is the first by name. Each region follows its own strategy; the platform's decides between regions.
func Choose(nodes []Node, n int, rules Rules) (Node, bool) {
	best := map[string]Node{}
	for _, c := range nodes {
		if n < 1 || len(c.Free) < n || rules.Excluded[c.Name] {
			continue
		}
		if have, ok := best[c.Region]; !ok || rules.compare(c, have, rules.spread(c.Region)) < 0 {
			best[c.Region] = c
		}
	}
	if len(best) == 0 {
		return Node{}, false
	}
	chosen := slices.MinFunc(slices.Collect(maps.Values(best)), func(a, b Node) int { return rules.compare(a, b, rules.Spread) })
	chosen.Free = chosen.Free[:n:n]
	return chosen, true
}

func (r Rules) compare(a, b Node, spread bool) int {
	fit := cmp.Compare(len(a.Free), len(b.Free))
	if spread {
		fit = -fit
	}
	return cmp.Or(cmp.Compare(r.avoids(a), r.avoids(b)), fit, cmp.Compare(a.Name, b.Name))
}
