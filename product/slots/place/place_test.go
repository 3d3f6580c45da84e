package place_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/slots/place"
)

func node(name string, free int) place.Node {
	n := place.Node{ID: ids.New[ids.Node](), Name: name}
	for i := range free {
		n.Free = append(n.Free, place.Slot{ID: ids.New[ids.Slot](), GPU: fmt.Sprintf("%s-%d", name, i), Index: i})
	}
	return n
}

func TestChoose(t *testing.T) {
	t.Parallel()
	nodes := []place.Node{node("a", 8), node("b", 2), node("c", 4), node("d", 2)}
	for n, want := range map[int]string{0: "", -1: "", 1: "b", 2: "b", 3: "c", 4: "c", 5: "a", 8: "a", 9: ""} {
		got, ok := place.Choose(nodes, n, place.Rules{})
		if got.Name != want || ok != (want != "") || ok && len(got.Free) != n {
			t.Errorf("%d GPUs: %s with %d, %v", n, got.Name, len(got.Free), ok)
		}
	}
}

func TestStrategies(t *testing.T) {
	t.Parallel()
	in := func(region string, n place.Node) place.Node {
		n.Region = region
		return n
	}
	failed := func(times int, n place.Node) place.Node {
		n.Failures = times
		return n
	}
	nodes := []place.Node{in("eu1", failed(2, node("a", 1))), in("eu1", node("b", 2)), in("eu1", node("c", 8)), in("us1", node("d", 3)), in("us1", node("e", 4))}
	for name, c := range map[string]struct {
		rules place.Rules
		nodes []place.Node
		want  string
	}{
		"pack":                           {place.Rules{}, nodes, "a"},
		"spread":                         {place.Rules{Spread: true}, nodes, "c"},
		"a region with its own strategy": {place.Rules{Regions: map[string]bool{"us1": true}}, nodes[3:], "e"},
		"packed, but not in a region":    {place.Rules{Spread: true, Regions: map[string]bool{"us1": false}}, nodes[3:], "d"},
		"a node that failed":             {place.Rules{AvoidAfter: 2}, nodes, "b"},
		"a node that failed once less":   {place.Rules{AvoidAfter: 3}, nodes, "a"},
		"an excluded node":               {place.Rules{Excluded: map[string]bool{"a": true}}, nodes, "b"},
		"only nodes that failed":         {place.Rules{AvoidAfter: 1}, nodes[:1], "a"},
	} {
		if got, ok := place.Choose(c.nodes, 1, c.rules); !ok || got.Name != c.want {
			t.Errorf("%s: %s, %v", name, got.Name, ok)
		}
	}
}

// The choice does not depend on the sequence of the nodes, does not change its input, and fails only if no
// node fits.
func TestChooseIsFair(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var nodes []place.Node
		most := 0
		for i, free := range rapid.SliceOfN(rapid.IntRange(0, 8), 0, 10).Draw(t, "free") {
			nodes = append(nodes, node(fmt.Sprint(i), free))
			most = max(most, free)
		}
		n := rapid.IntRange(1, 9).Draw(t, "n")
		a, ok := place.Choose(nodes, n, place.Rules{})
		b, _ := place.Choose(rapid.Permutation(slices.Clone(nodes)).Draw(t, "order"), n, place.Rules{})
		if ok != (n <= most) || a.ID != b.ID || !slices.Equal(a.Free, b.Free) {
			t.Fatalf("%d of at most %d: %v, %s and %s", n, most, ok, a.Name, b.Name)
		}
		if ok && cap(a.Free) != n {
			t.Fatal("an append to the choice would write into the node's own slots")
		}
	})
}
