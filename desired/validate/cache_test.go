package validate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func skuText(name string) string {
	return "{apiVersion: gpuaas/v1alpha1, kind: SKU, metadata: {name: " + name + "}, spec: {gpuModel: T4, memoryGiB: 16, price: {currency: EUR, amountMinor: 1}}}\n"
}

func nodeText(name, sku string) string {
	return "{apiVersion: gpuaas/v1alpha1, kind: Node, metadata: {name: " + name + "}, spec: {sku: " + sku + ", region: eu, gpus: 4}}\n"
}

func policyText(name string, seconds int) string {
	return fmt.Sprintf("{apiVersion: gpuaas/v1alpha1, kind: Policy, metadata: {name: %s}, spec: {key: node.report_seconds, value: %d}}\n", name, seconds)
}

func imageText(name string, isDefault bool) string {
	return fmt.Sprintf("{apiVersion: gpuaas/v1alpha1, kind: OSImage, metadata: {name: %s}, spec: {digest: %q, default: %v}}\n", name, "sha256:"+strings.Repeat("0", 64), isDefault)
}

// After any series of changes the cache returns the findings of a complete validation, and its
// deltas add up to the tree.
func TestCacheAgreesWithRun(t *testing.T) {
	t.Parallel()
	g := rand.New(rand.NewPCG(rand.Uint64(), 7))
	c := &Cache{}
	files := map[string][]byte{"skus.yaml": []byte(skuText("t4") + "---\n" + skuText("l4")), "README.md": nil}
	have := map[desired.Name]desired.Object{}
	at, good := "", 0
	for round := range 60 {
		next := maps.Clone(files)
		var changed, removed []string
		for range 1 + g.IntN(3) {
			name := pickFrom(g, "skus.yaml", "a.yaml", "b.json", "f/a.cue", "f/b.cue", "f/c.cue", "g/a.cue", "d.yaml", "README.md")
			if _, there := next[name]; there && g.IntN(4) == 0 && name != "skus.yaml" {
				delete(next, name)
				removed = append(removed, name)
				changed = slices.DeleteFunc(changed, func(n string) bool { return n == name })
				continue
			}
			next[name] = content(g, name)
			changed = append(changed, name)
			removed = slices.DeleteFunc(removed, func(n string) bool { return n == name })
		}
		tree := fmt.Sprint("tree ", round)
		in := Input{Tree: tree, Files: next}
		incremental := at != "" && g.IntN(3) > 0
		if incremental {
			in.Base, in.Changed, in.Removed, in.Files = at, changed, removed, map[string][]byte{}
			for _, name := range changed {
				in.Files[name] = next[name]
			}
		}
		got, err := c.Validate(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		want, err := evaluate(next, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Findings, got.Findings, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("round %d, incremental %v: findings (-whole +cache):\n%s", round, incremental, diff)
		}
		if !got.OK() || g.IntN(5) == 0 {
			continue // rejected, or not applied
		}
		good++
		c.Commit(tree)
		files, at = next, tree
		for _, o := range got.Delta.Objects {
			have[desired.Name{Kind: o.Kind, Name: o.Name}] = o
		}
		for _, n := range got.Delta.Removed {
			delete(have, n)
		}
		sum := slices.Collect(maps.Values(have))
		inApplyOrder(sum)
		if diff := cmp.Diff(want.Objects, sum, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("round %d: the deltas add up to (-whole +sum):\n%s", round, diff)
		}
		if got.Delta.Total != len(sum) || !incremental && cmp.Diff(want.Objects, got.Objects, cmpopts.EquateEmpty()) != "" {
			t.Fatalf("round %d: total %d of %d", round, got.Delta.Total, len(sum))
		}
	}
	if good < 5 {
		t.Errorf("only %d trees were good", good)
	}
}

func pickFrom[T any](g *rand.Rand, from ...T) T { return from[g.IntN(len(from))] }

// content is mostly right, and collides with other files now and then.
func content(g *rand.Rand, name string) []byte {
	base := strings.NewReplacer("/", "-", ".", "-").Replace(name)
	node := fmt.Sprintf("%s-%d", base, g.IntN(2))
	if g.IntN(12) == 0 {
		node = "shared"
	}
	sku := pickFrom(g, "t4", "t4", "l4", "own")
	if g.IntN(15) == 0 {
		return []byte(pickFrom(g, "{", "spec: 1", "x: 1"))
	}
	switch {
	case name == "skus.yaml":
		return []byte(skuText("t4") + "---\n" + pickFrom(g, skuText("l4"), skuText("l4"), policyText("other", 9), imageText("debian", true)) + "---\n" + skuText("own"))
	case strings.HasSuffix(name, ".cue"):
		field := base[len(base)-5:len(base)-4] + fmt.Sprint(g.IntN(2))
		return []byte("package x\n" + field + "_: " + strings.ReplaceAll(strings.NewReplacer("{apiVersion: gpuaas/v1alpha1", `{apiVersion: "gpuaas/v1alpha1"`, "kind: Node", `kind: "Node"`, "region: eu", `region: "eu"`,
			"name: "+node, fmt.Sprintf("name: %q", node), "sku: "+sku, fmt.Sprintf("sku: %q", sku)).Replace(nodeText(node, sku)), "\n", "") + "\n")
	case strings.HasSuffix(name, ".json"):
		return []byte(fmt.Sprintf(`[{"apiVersion": "gpuaas/v1alpha1", "kind": "Node", "metadata": {"name": %q}, "spec": {"sku": %q, "region": "eu", "gpus": 4}}]`, node, sku))
	}
	return []byte(nodeText(node, sku) + "---\n" + pickFrom(g, policyText(base, 5), imageText(base, g.IntN(2) == 0), skuText(base), "") + "---\n")
}

func TestCacheKnowsOneBase(t *testing.T) {
	t.Parallel()
	c := &Cache{}
	first := Input{Tree: "a", Files: map[string][]byte{"a.yaml": []byte(skuText("t4"))}}
	if r, err := c.Validate(t.Context(), first); err != nil || !r.OK() || r.Delta.Base != "" || len(r.Objects) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	next := Input{Tree: "b", Base: "a", Changed: []string{"b.yaml"}, Files: map[string][]byte{"b.yaml": []byte(skuText("l4"))}}
	if _, err := c.Validate(t.Context(), next); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("a tree that was never committed is a base: %v", err)
	}
	c.Commit("nowhere")
	c.Commit("a")
	r, err := c.Validate(t.Context(), next)
	if err != nil || !r.OK() || r.Delta.Base != "a" || len(r.Delta.Objects) != 1 || r.Delta.Total != 2 || r.Objects != nil {
		t.Errorf("%+v, %v", r, err)
	}
	// A pull request against the same base, which is never cached.
	beside := Input{Tree: "c", Base: "a", Removed: []string{"a.yaml"}, Changed: []string{"n.yaml"}, Files: map[string][]byte{"n.yaml": []byte(nodeText("n", "t4"))}}
	if r, err := c.Validate(t.Context(), beside); err != nil || len(r.Findings) != 1 || r.Findings[0].Code != desired.CodeUnresolvedReference {
		t.Errorf("%+v, %v", r, err)
	}
	c.Commit("c")
	c.Commit("b")
	if c.at != "b" {
		t.Errorf("the cached tree is %q", c.at)
	}
	empty := Input{Tree: "d", Base: "b", Removed: []string{"a.yaml", "b.yaml"}}
	if r, err := c.Validate(t.Context(), empty); err != nil || len(r.Findings) != 1 || r.Findings[0].Code != desired.CodeSourceEmpty {
		t.Errorf("%+v, %v", r, err)
	}
}

// The work is proportional to the change: an unchanged unit reaches no child, and a unit that was
// evaluated before is not sent again.
func TestCacheEvaluatesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	c := &Cache{}
	files := map[string][]byte{"skus.yaml": []byte(skuText("t4"))}
	for i := range 200 {
		files[fmt.Sprintf("n/%d.yaml", i)] = []byte(nodeText(fmt.Sprint("n-", i), "t4"))
	}
	if r, err := c.Validate(t.Context(), Input{Tree: "a", Files: files}); err != nil || !r.OK() {
		t.Fatal(r, err)
	}
	c.Commit("a")
	// The same in full: no child could run with these limits.
	c.Limits = Limits{MemoryBytes: 1, CPU: 1, Wall: 1}
	if r, err := c.Validate(t.Context(), Input{Tree: "b", Files: files}); err != nil || !r.OK() || len(r.Delta.Objects) != 0 || len(r.Objects) != 201 {
		t.Fatal(r, err)
	}
	c.Limits = DefaultLimits()
	one := Input{Tree: "c", Base: "a", Changed: []string{"n/7.yaml"}, Files: map[string][]byte{"n/7.yaml": []byte(nodeText("n-7", "t5"))}}
	r, err := c.Validate(t.Context(), one)
	if err != nil || len(r.Findings) != 1 || r.Findings[0].Path != "n/7.yaml" {
		t.Fatal(r, err)
	}
	c.Limits = Limits{MemoryBytes: 1, CPU: 1, Wall: 1}
	if again, err := c.Validate(t.Context(), one); err != nil || cmp.Diff(r.Findings, again.Findings) != "" {
		t.Error(again, err)
	}
}

func TestRememberedPartsAreBounded(t *testing.T) {
	t.Parallel()
	c := &Cache{}
	c.begin()
	for i := range 100 {
		c.parts.put([32]byte{byte(i)}, &part{}, mostBytes/10)
	}
	if c.parts.bytes > mostBytes || len(c.parts.entries) != c.parts.order.Len() || c.parts.get([32]byte{99}) == nil || c.parts.get([32]byte{1}) != nil {
		t.Errorf("%d bytes in %d entries", c.parts.bytes, len(c.parts.entries))
	}
}
