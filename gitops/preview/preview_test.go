package preview_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/ids"
)

func TestAnEmptyDifferenceIsAnEmptyPlan(t *testing.T) {
	t.Parallel()
	p := preview.Make(change(revision.Difference{Unchanged: 3}), preview.Inputs{}, rules())
	var text strings.Builder
	if err := p.Text(&text); err != nil || !p.Empty() || p.Objects != 3 || len(p.Steps)+len(p.Waits)+len(p.Findings) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if want := "Plan: 0 to create, 0 to change, 0 to delete.\n"; text.String() != want {
		t.Errorf("%q", text.String())
	}
	document, err := json.Marshal(p)
	if err != nil || strings.Contains(string(document), "null") {
		t.Errorf("an empty list is no null: %s, %v", document, err)
	}
}

// exampleChange changes a price, cordons a node, lowers a cap, and deletes a node with two live
// allocations, as in the issue.
func exampleChange() revision.Difference {
	labelled := node("n9", 9, nil)
	labelled.Annotations, labelled.Labels = map[string]string{"gpuaas/prune": "confirm"}, map[string]string{"rack": "b/2"}
	return revision.Difference{
		Created: []desired.Object{node("n10", 10, nil)},
		Changed: []revision.Pair{
			pair(sku("h100", 1, 249), sku("h100", 1, 259)),
			pair(node("n8", 8, nil), node("n8", 8, cordon)),
			pair(policy("cap", 3, "allocation.max_concurrent_per_tenant", "tenant:acme", 64), policy("cap", 3, "allocation.max_concurrent_per_tenant", "tenant:acme", 1)),
			pair(node("n9", 9, nil), labelled),
		},
		Deleted:   []desired.Object{node("n7", 7, nil)},
		Unchanged: 11,
	}
}

func TestPlanAsText(t *testing.T) {
	t.Parallel()
	p := made(exampleChange())
	var text strings.Builder
	if err := p.Text(&text); err != nil {
		t.Fatal(err)
	}
	document, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/story.txt", text.String())
	golden(t, "testdata/story.md", p.Markdown())
	golden(t, "testdata/story.json", string(document)+"\n")
}

// A stored plan is read back unchanged, including the fields that are not displayed.
func TestDocumentAndRead(t *testing.T) {
	t.Parallel()
	p := made(exampleChange())
	document, err := p.Document()
	if err != nil {
		t.Fatal(err)
	}
	again, err := preview.Read(document)
	if err != nil || again.Hash != p.Hash || len(preview.Moved(p, again)) != 0 {
		t.Errorf("%v: %v", err, preview.Moved(p, again))
	}
	a, _ := json.Marshal(p)
	b, _ := json.Marshal(again)
	if string(a) != string(b) {
		t.Errorf("%s\n%s", a, b)
	}
}

func TestWaitsAndFindings(t *testing.T) {
	t.Parallel()
	many := func(n int) (list []desired.Object) {
		for i := range n {
			list = append(list, object(desired.KindOSImage, fmt.Sprintf("r%d", i), byte(i), desired.OSImage{}))
		}
		return list
	}
	annotated := func(word string) []desired.Object {
		o := object(desired.KindOSImage, "r", 1, desired.OSImage{})
		o.Annotations = map[string]string{"gpuaas/prune": word}
		return []desired.Object{o}
	}
	smaller := func(n *desired.Node) { n.GPUs = 4 }
	for name, c := range map[string]struct {
		d        revision.Difference
		rules    func(*preview.Rules)
		diverged bool
		want     string
		findings int
	}{
		"nothing":                                {},
		"as many as the cap go":                  {d: revision.Difference{Deleted: many(5)}},
		"one more than the cap goes":             {d: revision.Difference{Deleted: many(6)}, want: "prune_cap OSImage/r0,OSImage/r1,OSImage/r2,OSImage/r3,OSImage/r4,OSImage/r5"},
		"a share of many goes":                   {d: revision.Difference{Deleted: many(6), Unchanged: 114}},
		"a bit more than the share":              {d: revision.Difference{Deleted: many(6), Unchanged: 113}, want: "prune_cap OSImage/r0,OSImage/r1,OSImage/r2,OSImage/r3,OSImage/r4,OSImage/r5"},
		"a cap of none":                          {d: revision.Difference{Deleted: many(1)}, rules: func(r *preview.Rules) { r.PruneObjects = 0 }, want: "prune_cap OSImage/r0"},
		"the author requires a confirmation":     {d: revision.Difference{Deleted: annotated("confirm")}, want: "confirm OSImage/r"},
		"the author forbade it":                  {d: revision.Difference{Deleted: annotated("disabled")}, findings: 1},
		"another owner's":                        {d: revision.Difference{Foreign: []desired.Finding{{Message: "is managed by the API"}}}, findings: 1},
		"a node under allocations goes":          {d: revision.Difference{Deleted: []desired.Object{node("n7", 7, nil)}}, want: "under_allocations Node/n7"},
		"a free node goes":                       {d: revision.Difference{Deleted: []desired.Object{node("n9", 9, nil)}}},
		"a node with allocations is resliced":    {d: revision.Difference{Changed: []revision.Pair{pair(node("n8", 8, nil), node("n8", 8, smaller))}}, want: "under_allocations Node/n8"},
		"a free node is resliced":                {d: revision.Difference{Changed: []revision.Pair{pair(node("n9", 9, nil), node("n9", 9, smaller))}}},
		"a SKU under allocations goes":           {d: revision.Difference{Deleted: []desired.Object{sku("h100", 1, 249)}}, want: "under_allocations SKU/h100"},
		"a cordon under allocations is no drain": {d: revision.Difference{Changed: []revision.Pair{pair(node("n8", 8, nil), node("n8", 8, cordon))}}},
		"more nodes than the breaker lets": {d: revision.Difference{
			Changed: []revision.Pair{pair(node("n8", 8, nil), node("n8", 8, cordon)), pair(node("n10", 10, nil), node("n10", 10, cordon))},
			Deleted: []desired.Object{node("n9", 9, nil)},
		}, want: "mass_action Node/n10,Node/n8,Node/n9"},
		"cordoned before": {d: revision.Difference{Changed: []revision.Pair{
			pair(node("n8", 8, cordon), node("n8", 8, func(n *desired.Node) { n.Cordoned, n.Region = true, "eu-2" })),
			pair(node("n9", 9, cordon), node("n9", 9, func(n *desired.Node) { n.Cordoned, n.Region = true, "eu-2" })),
			pair(node("n10", 10, cordon), node("n10", 10, func(n *desired.Node) { n.Cordoned, n.Region = true, "eu-2" })),
		}}},
		"diverged, and allowed": {diverged: true},
		"diverged":              {diverged: true, rules: func(r *preview.Rules) { r.Requires = append(r.Requires, preview.RequiresUndiverged) }, want: "diverged "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := rules()
			if c.rules != nil {
				c.rules(&with)
			}
			asked := change(c.d)
			asked.Diverged = c.diverged
			p := preview.Make(asked, inputs(), with)
			var got []string
			for _, w := range p.Waits {
				got = append(got, w.Reason+" "+strings.Join(w.Objects, ","))
			}
			if strings.Join(got, "; ") != c.want || len(p.Findings) != c.findings {
				t.Errorf("waits %q, findings %v", got, p.Findings)
			}
		})
	}
}

// A node without allocations whose slots are not proved clean yet is not free.
func TestWaitsForProof(t *testing.T) {
	t.Parallel()
	f := inputs()
	f.Nodes[2].Held = 1
	p := preview.Make(change(revision.Difference{Deleted: []desired.Object{node("n9", 9, nil)}}), f, rules())
	if len(p.Waits) != 1 || p.Waits[0].Reason != preview.WaitUnderAllocations || len(p.Blast.Drains) != 1 {
		t.Errorf("%+v, %+v", p.Waits, p.Blast.Drains)
	}
}

func TestMovedSaysWhat(t *testing.T) {
	t.Parallel()
	p := made(exampleChange())
	later := func(alter func(*preview.Change, *preview.Inputs)) preview.Plan {
		c, f := change(exampleChange()), inputs()
		alter(&c, &f)
		return preview.Make(c, f, rules())
	}
	for name, c := range map[string]struct {
		now  preview.Plan
		want []string
	}{
		"nothing":                                {later(func(*preview.Change, *preview.Inputs) {}), []string{}},
		"another balance moves no plan":          {later(func(_ *preview.Change, f *preview.Inputs) { f.Tenants[0].Balance = 1 }), []string{}},
		"another line moves no plan":             {later(func(c *preview.Change, _ *preview.Inputs) { c.Diff.Changed[0].New.Source.Line = 99 }), []string{}},
		"the price is paid by one more":          {later(func(_ *preview.Change, f *preview.Inputs) { f.Allocations = append(f.Allocations, lives(204, 8, 1)) }), []string{}},
		"a generation":                           {later(func(c *preview.Change, _ *preview.Inputs) { c.Diff.Deleted[0].Generation = 3 }), []string{"Node/n7: generation 3, was 2"}},
		"a label":                                {later(func(c *preview.Change, _ *preview.Inputs) { c.Diff.Deleted[0].ResourceVersion = 4 }), []string{"Node/n7: version 4, was 3"}},
		"the source":                             {later(func(c *preview.Change, _ *preview.Inputs) { c.Base = "1234" }), []string{"fleet is at 1234, was 8e2b1c0d8e2b"}},
		"the commit":                             {later(func(c *preview.Change, _ *preview.Inputs) { c.Commit = "1234" }), []string{"the commit is 1234, was 9f3c2d1e9f3c"}},
		"the request":                            {later(func(c *preview.Change, _ *preview.Inputs) { c.Diff.Created[0] = node("n10", 10, cordon) }), []string{"the request has changed"}},
		"an allocation starts on a removed node": {later(func(_ *preview.Change, f *preview.Inputs) { f.Allocations = append(f.Allocations, lives(205, 7, 1)) }), []string{"allocation " + uid(205).String() + " started on n7"}},
		"an allocation leaves a removed node":    {later(func(_ *preview.Change, f *preview.Inputs) { f.Allocations = f.Allocations[1:] }), []string{"allocation " + uid(201).String() + " ended on n7"}},
		"another change has done it":             {later(func(c *preview.Change, _ *preview.Inputs) { c.Diff.Deleted = nil }), []string{"Node/n7 was at generation 2, and is not changed by this any more", "allocation " + uid(201).String() + " ended on n7", "allocation " + uid(202).String() + " ended on n7"}},
		"it has been declared meanwhile": {later(func(c *preview.Change, _ *preview.Inputs) {
			c.Diff.Changed = append(c.Diff.Changed, pair(node("n11", 11, nil), node("n11", 11, cordon)))
		}), []string{"Node/n11 is at generation 2, and was not to be changed"}},
	} {
		if got := preview.Moved(p, c.now); !slices.Equal(got, c.want) || (len(got) == 0) != (p.Hash == c.now.Hash) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A first revision may create a whole fleet: a plan limits its steps and lists all deletions and
// changes.
func TestManySteps(t *testing.T) {
	t.Parallel()
	d := exampleChange()
	for i := range 12_000 {
		o := node(fmt.Sprintf("m%d", i), 0, nil)
		o.UID = ids.Object{}
		d.Created = append(d.Created, o)
	}
	p := made(d)
	if len(p.Steps) != 5000 || p.Creates != 12_001 || !slices.ContainsFunc(p.Steps, func(s preview.Step) bool { return s.Action == preview.Delete }) {
		t.Errorf("%d steps, %d creates", len(p.Steps), p.Creates)
	}
	if text := p.Markdown(); len(text) > 60_000 || !strings.Contains(text, "more\n\n</details>") {
		t.Errorf("%d bytes, ends %q", len(text), text[len(text)-300:])
	}
}
