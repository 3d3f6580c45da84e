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
		got, ok := place.Choose(nodes, n)
		if got.Name != want || ok != (want != "") || ok && len(got.Free) != n {
			t.Errorf("%d GPUs: %s with %d, %v", n, got.Name, len(got.Free), ok)
		}
	}
}

// The choice does not depend on the order of the nodes, does not change its input, and fails only if no
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
		a, ok := place.Choose(nodes, n)
		b, _ := place.Choose(rapid.Permutation(slices.Clone(nodes)).Draw(t, "order"), n)
		if ok != (n <= most) || a.ID != b.ID || !slices.Equal(a.Free, b.Free) {
			t.Fatalf("%d of at most %d: %v, %s and %s", n, most, ok, a.Name, b.Name)
		}
		if ok && cap(a.Free) != n {
			t.Fatal("an append to the choice would write into the node's own slots")
		}
	})
}
