package place_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/product/inventory/place"
)

func node(name string, free int) place.Node {
	n := place.Node{Name: name}
	for i := range free {
		n.Free = append(n.Free, place.Slot{Index: i})
	}
	return n
}

func TestChooseBestFit(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		nodes []place.Node
		n     int
		want  string // empty: nothing fits
	}{
		"nothing fits":            {[]place.Node{node("a", 2)}, 3, ""},
		"none asked":              {[]place.Node{node("a", 2)}, 0, ""},
		"least is left over":      {[]place.Node{node("a", 8), node("b", 3), node("c", 2)}, 2, "c"},
		"whole boards are spared": {[]place.Node{node("a", 8), node("b", 5)}, 4, "b"},
		"ties go by name":         {[]place.Node{node("b", 4), node("a", 4)}, 1, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, ok := place.Choose(c.nodes, c.n)
			if got.Name != c.want || ok != (c.want != "") {
				t.Errorf("chose %q (%v), want %q", got.Name, ok, c.want)
			}
			if ok && len(got.Free) != c.n {
				t.Errorf("%d slots, want %d", len(got.Free), c.n)
			}
		})
	}
}

// The order in which nodes are listed decides nothing.
func TestChooseIgnoresOrder(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		var nodes []place.Node
		for _, name := range []string{"a", "b", "c", "d"} {
			nodes = append(nodes, node(name, rapid.IntRange(0, 8).Draw(t, name)))
		}
		n := rapid.IntRange(1, 8).Draw(t, "n")
		one, ok := place.Choose(nodes, n)
		other, okToo := place.Choose(rapid.Permutation(nodes).Draw(t, "order"), n)
		if ok != okToo || !cmp.Equal(one, other) {
			t.Errorf("%+v, but in another order %+v", one, other)
		}
	})
}
