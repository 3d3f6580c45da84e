package preview_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/policies"
)

// value draws any JSON that a spec may contain.
func value(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		most := 6
		if depth == 0 {
			most = 4
		}
		switch rapid.IntRange(0, most).Draw(t, "type") {
		case 0:
			return rapid.Int64().Draw(t, "number")
		case 1:
			return rapid.String().Draw(t, "text")
		case 2:
			return rapid.Bool().Draw(t, "truth")
		case 3:
			return nil
		case 4:
			return "same"
		case 5:
			return rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "list")
		}
		return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b/c", "d~e", "", "é"}), value(depth-1), 0, 3).Draw(t, "object")
	})
}

func tree(t *rapid.T, name string) []desired.Object {
	var list []desired.Object
	n := byte(1)
	for _, kind := range []desired.Kind{desired.KindRole, desired.KindOSImage} {
		for i := range 5 {
			if !rapid.Bool().Draw(t, name+" has it") {
				continue
			}
			o := object(kind, fmt.Sprintf("o%d", i), n, map[string]any{"v": value(2).Draw(t, "spec")})
			o.Labels = rapid.MapOfN(rapid.SampledFrom([]string{"a", "x/y"}), rapid.SampledFrom([]string{"", "1", "2"}), 0, 2).Draw(t, "labels")
			list, n = append(list, o), n+1
		}
	}
	return list
}

func compared(have, want []desired.Object) revision.Difference {
	return revision.Compare(have, revision.Snapshot{Source: "fleet", Objects: want})
}

// INV-16: what is declared already is an empty plan, always with one hash.
func TestINV16EqualTreesAreAnEmptyPlan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		have := tree(t, "have")
		p, again := made(compared(have, have)), made(compared(have, slices.Clone(have)))
		if !p.Empty() || len(p.Steps) != 0 || p.Hash != again.Hash {
			t.Fatalf("%+v", p.Steps)
		}
	})
}

// The result does not depend on the sequence of objects and inputs.
func TestOrderNeverMatters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		have, want := tree(t, "have"), tree(t, "want")
		d, f := compared(have, want), inputs()
		s := exampleChange()
		d.Changed, d.Deleted, d.Created = append(d.Changed, s.Changed...), append(d.Deleted, s.Deleted...), append(d.Created, s.Created...)
		first := preview.Make(change(d), f, rules())
		d.Changed = rapid.Permutation(d.Changed).Draw(t, "changed")
		d.Deleted = rapid.Permutation(d.Deleted).Draw(t, "deleted")
		d.Created = rapid.Permutation(d.Created).Draw(t, "created")
		f.Nodes, f.Allocations = rapid.Permutation(f.Nodes).Draw(t, "nodes"), rapid.Permutation(f.Allocations).Draw(t, "allocations")
		f.Tenants, f.Holders = rapid.Permutation(f.Tenants).Draw(t, "tenants"), rapid.Permutation(f.Holders).Draw(t, "holders")
		second := preview.Make(change(d), f, rules())
		a, _ := first.Document()
		b, _ := second.Document()
		if !bytes.Equal(a, b) {
			t.Fatalf("%s\n%s", a, b)
		}
	})
}

// Every difference is one step, whose fields make the old document the new one.
func TestEveryDifferenceAppearsOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		have, want := tree(t, "have"), tree(t, "want")
		p := made(compared(have, want))
		old, now := byName(have), byName(want)
		steps := map[string]preview.Step{}
		for _, s := range p.Steps {
			if _, twice := steps[s.Label()]; twice {
				t.Fatalf("%s twice", s.Label())
			}
			steps[s.Label()] = s
		}
		for name := range union(old, now) {
			a, had := old[name]
			b, has := now[name]
			s, told := steps[name]
			switch {
			case had && has && document(a) == document(b):
				if told {
					t.Fatalf("%s: %+v, and nothing differs in %s", name, s, document(a))
				}
			case !told:
				t.Fatalf("%s differs, and no step has it:\n%s\n%s", name, document(a), document(b))
			case s.Action != map[[2]bool]preview.Action{{true, true}: preview.Modify, {false, true}: preview.Create, {true, false}: preview.Delete}[[2]bool{had, has}]:
				t.Fatalf("%s: %s", name, s.Action)
			case s.Action == preview.Modify:
				if got := patched(t, document(a), s.Fields); got != document(b) {
					t.Fatalf("%s becomes\n%s, not\n%s, by %+v", document(a), got, document(b), s.Fields)
				}
			}
		}
	})
}

func union[V any](a, b map[string]V) map[string]bool {
	all := map[string]bool{}
	for k := range a {
		all[k] = true
	}
	for k := range b {
		all[k] = true
	}
	return all
}

func byName(list []desired.Object) map[string]desired.Object {
	m := map[string]desired.Object{}
	for _, o := range list {
		m[o.Key().String()] = o
	}
	return m
}

// document is an object in one form: keys sorted, labels there.
func document(o desired.Object) string {
	labels := o.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}, "spec": o.Spec})
	if err != nil {
		return ""
	}
	return normal(text)
}

func normal(text []byte) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err.Error()
	}
	again, _ := json.Marshal(v)
	return string(again)
}

// patched applies fields by the meaning of JSON pointers alone: removals from the last, so that a
// list preserves its indexes, then the new values.
func patched(t *rapid.T, text string, fields []preview.Field) string {
	var root any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		t.Fatal(err)
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for i := range fields {
		f := fields[len(fields)-1-i]
		if f.To == "" {
			root = with(root, pointer(f.Path, unescape), nil, false)
		}
	}
	for _, f := range fields {
		if f.To != "" {
			var v any
			d := json.NewDecoder(strings.NewReader(f.To))
			d.UseNumber()
			if err := d.Decode(&v); err != nil {
				t.Fatal(err)
			}
			root = with(root, pointer(f.Path, unescape), v, true)
		}
	}
	out, _ := json.Marshal(root)
	return string(out)
}

func pointer(path string, unescape *strings.Replacer) []string {
	parts := strings.Split(path, "/")[1:]
	for i := range parts {
		parts[i] = unescape.Replace(parts[i])
	}
	return parts
}

func with(at any, path []string, v any, there bool) any {
	if len(path) == 0 {
		return v
	}
	switch at := at.(type) {
	case []any:
		i, err := strconv.Atoi(path[0])
		switch {
		case err != nil:
			return at
		case len(path) == 1 && !there:
			return slices.Delete(at, i, i+1)
		case i == len(at):
			return append(at, with(nil, path[1:], v, there))
		}
		at[i] = with(at[i], path[1:], v, there)
		return at
	case map[string]any:
		if len(path) == 1 && !there {
			delete(at, path[0])
			return at
		}
		at[path[0]] = with(at[path[0]], path[1:], v, there)
		return at
	}
	return with(map[string]any{}, path, v, there)
}

// INV-37: the financial effect is exact, or the change is rejected; no sum overflows.
func TestINV37MoneyIsExactOrRejected(t *testing.T) {
	t.Parallel()
	near := rapid.OneOf(rapid.Int64Range(0, 500), rapid.Int64Range(1<<62-9, math.MaxInt64), rapid.Int64Range(0, math.MaxInt64))
	rapid.Check(t, func(t *rapid.T) {
		old, now := near.Draw(t, "price"), near.Draw(t, "new price")
		f := inputs()
		f.Prices["h100"] = preview.Price{Currency: "EUR", Minor: money.Minor(old), Active: true}
		f.Stock["h100"] = preview.Stock{Sold: rapid.IntRange(0, 9).Draw(t, "sold"), Open: rapid.IntRange(0, 9).Draw(t, "open")}
		f.Burn["EUR"] = money.Minor(near.Draw(t, "burn"))
		f.Tenants[0].Burn, f.Tenants[1].Burn = money.Minor(near.Draw(t, "burn of acme")), 0
		f.Allocations = f.Allocations[:1]
		f.Allocations[0].Price, f.Allocations[0].GPUs = money.Minor(old), rapid.IntRange(1, 8).Draw(t, "gpus")
		p := preview.Make(change(revision.Difference{Changed: []revision.Pair{pair(sku("h100", 1, old), sku("h100", 1, now))}}), f, rules())

		slots := int64(f.Stock["h100"].Sold + f.Stock["h100"].Open)
		times := func(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }
		gpus := int64(f.Allocations[0].GPUs)
		delta := new(big.Int).Sub(times(now, gpus), times(old, gpus))
		sums := map[string]*big.Int{
			"capacity before": times(old, slots), "capacity after": times(now, slots), "before": times(old, gpus), "after": times(now, gpus),
			"burn": new(big.Int).Add(big.NewInt(int64(f.Burn["EUR"])), delta), "acme": new(big.Int).Add(big.NewInt(int64(f.Tenants[0].Burn)), delta),
		}
		fits := true
		for _, sum := range sums {
			fits = fits && sum.IsInt64()
		}
		if len(p.Findings) > 0 {
			if fits && old != now {
				t.Fatalf("all fits, and it is rejected: %v", p.Findings)
			}
			return
		}
		m := p.Money[0]
		if int64(m.CapacityBefore) != sums["capacity before"].Int64() || int64(m.CapacityAfter) != sums["capacity after"].Int64() || int64(m.BurnAfter) != sums["burn"].Int64() {
			t.Fatalf("%+v, want %v", m, sums)
		}
		if len(m.Tenants) == 1 && int64(m.Tenants[0].BurnAfter) != sums["acme"].Int64() {
			t.Fatalf("%+v, want %v", m.Tenants, sums)
		}
	})
}

// The burn follows a price as allocation.Reprice has it.
func TestPricesFollow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alter func(*preview.Allocation)
		now   func(*desired.SKU)
		want  money.Minor // of all, which was 1245
	}{
		"what is charged":                             {want: 1245 + 30 + 20},
		"but not what leaves":                         {alter: func(a *preview.Allocation) { a.Leaving, a.Charged = true, false }, want: 1245 + 20},
		"nor what is paused":                          {alter: func(a *preview.Allocation) { a.Charged = false }, want: 1245 + 20},
		"nor what is in another currency":             {alter: func(a *preview.Allocation) { a.Currency = "USD" }, want: 1245 + 20},
		"a new currency changes no running price":     {now: func(s *desired.SKU) { s.Price.Currency = "USD" }, want: 1245},
		"what is not sold any more costs what it did": {now: func(s *desired.SKU) { s.Active, s.Price.AmountMinor = false, 249 }, want: 1245},
	} {
		f := inputs()
		if c.alter != nil {
			c.alter(&f.Allocations[0])
			c.alter(&f.Allocations[1])
		}
		spec := desired.SKU{DisplayName: "h100", MaxGPUs: 8, Active: true, Price: desired.Price{Currency: "EUR", AmountMinor: 259}}
		if c.now != nil {
			c.now(&spec)
		}
		p := preview.Make(change(revision.Difference{Changed: []revision.Pair{pair(sku("h100", 1, 249), object(desired.KindSKU, "h100", 1, spec))}}), f, rules())
		i := slices.IndexFunc(p.Money, func(m preview.MoneyChange) bool { return m.Currency == "EUR" })
		if got := p.Money[i].BurnAfter; got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// The price of all sellable slots before and after a change.
func TestCapacity(t *testing.T) {
	t.Parallel()
	const before = 24 * 249
	other := func(n *desired.Node) { n.SKU = "a100" }
	off := object(desired.KindSKU, "h100", 1, desired.SKU{DisplayName: "h100", MaxGPUs: 8, Price: desired.Price{Currency: "EUR", AmountMinor: 249}})
	for name, c := range map[string]struct {
		d    revision.Difference
		want money.Minor
	}{
		"a node is created":                            {revision.Difference{Created: []desired.Object{node("n10", 10, nil)}}, before + 8*249},
		"a cordoned node is created":                   {revision.Difference{Created: []desired.Object{node("n10", 10, cordon)}}, before},
		"a node goes":                                  {revision.Difference{Deleted: []desired.Object{node("n7", 7, nil)}}, before - 8*249},
		"a node is cordoned, and its allocations stay": {revision.Difference{Changed: []revision.Pair{pair(node("n7", 7, nil), node("n7", 7, cordon))}}, before - 5*249},
		"a node is sold as something dearer":           {revision.Difference{Created: []desired.Object{sku("a100", 2, 300)}, Changed: []revision.Pair{pair(node("n9", 9, nil), node("n9", 9, other))}}, before - 8*249 + 8*300},
		"or as what has no price":                      {revision.Difference{Changed: []revision.Pair{pair(node("n9", 9, nil), node("n9", 9, other))}}, before - 8*249},
		"a SKU is no longer sold":                      {revision.Difference{Changed: []revision.Pair{pair(sku("h100", 1, 249), off)}}, 5 * 249},
		"a SKU goes":                                   {revision.Difference{Deleted: []desired.Object{sku("h100", 1, 249)}}, 5 * 249},
	} {
		p := made(c.d)
		if got := p.Money[0]; got.CapacityBefore != before || got.CapacityAfter != c.want {
			t.Errorf("%s: %d to %d, want %d", name, got.CapacityBefore, got.CapacityAfter, c.want)
		}
	}
}

func TestOverCaps(t *testing.T) {
	t.Parallel()
	const perTenant, perProject, perUser = "allocation.max_concurrent_per_tenant", "allocation.max_concurrent_per_project", "allocation.max_concurrent_per_user"
	for name, c := range map[string]struct {
		set  policies.Snapshot
		d    revision.Difference
		want string
	}{
		"raised":                     {d: revision.Difference{Created: []desired.Object{policy("p", 1, perTenant, "platform", 100)}}},
		"lowered, and below the cap": {d: revision.Difference{Created: []desired.Object{policy("p", 1, perTenant, "platform", 2)}}},
		"lowered for all":            {d: revision.Difference{Created: []desired.Object{policy("p", 1, perTenant, "platform", 1)}}, want: "tenant acme 2 of 1"},
		"zero":                       {d: revision.Difference{Created: []desired.Object{policy("p", 1, perTenant, "platform", 0)}}, want: "tenant acme 2 of 0, tenant umbrella 1 of 0"},
		"by the tenant's id":         {d: revision.Difference{Created: []desired.Object{policy("p", 1, perTenant, "tenant:"+acme.String(), 1)}}, want: "tenant acme 2 of 1"},
		"for a project":              {d: revision.Difference{Created: []desired.Object{policy("p", 1, perProject, "project:"+serve.String(), 0)}}, want: "project serve 1 of 0"},
		"for people":                 {d: revision.Difference{Created: []desired.Object{policy("p", 1, perUser, "tenant:acme", 1)}}, want: "user:" + ada.String() + " 2 of 1"},
		"for another tenant":         {d: revision.Difference{Created: []desired.Object{policy("p", 1, perTenant, "tenant:umbrella", 1)}}},
		"unset, so the default":      {set: policies.Snapshot{}.With(perUser, "platform", int64(9)), d: revision.Difference{Deleted: []desired.Object{policy("p", 1, perUser, "platform", 9)}}},
		"moved to another": {
			set: policies.Snapshot{}.With(perTenant, byID(umbrella), int64(0)),
			d:   revision.Difference{Changed: []revision.Pair{pair(policy("p", 1, perTenant, "tenant:umbrella", 0), policy("p", 1, perTenant, "tenant:acme", 0))}}, want: "tenant acme 2 of 0",
		},
		"over before, and lowered again": {set: policies.Snapshot{}.With(perTenant, "platform", int64(1)), d: revision.Difference{Created: []desired.Object{policy("p", 1, perTenant, "tenant:acme", 0)}}, want: "tenant acme 2 of 0"},
		"over before, and left":          {set: policies.Snapshot{}.With(perTenant, "platform", int64(1)), d: revision.Difference{Created: []desired.Object{policy("p", 1, perTenant, "tenant:acme", 1)}}},
		"another key":                    {d: revision.Difference{Created: []desired.Object{policy("p", 1, "allocation.max_gpus", "platform", 1)}}},
	} {
		f := inputs()
		f.Policies = c.set
		var got []string
		for _, o := range preview.Make(change(c.d), f, rules()).Blast.OverCaps {
			who := o.Scope
			if o.Name != "" {
				level, _, _ := strings.Cut(o.Scope, ":")
				who = level + " " + o.Name
			}
			got = append(got, fmt.Sprintf("%s %d of %d", who, o.Used, o.Limit))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A hostile name can neither send control characters to a terminal nor create mentions nor end a
// table.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	names := []string{"a`b", "a|b", "@everyone", "</details><script>", "\x1b[2J\x1b[31m", "a\u202eb", "a\r\n# h", "![x](http://e.vil/x)", "<!-- gpuaas:plan:fleet -->", strings.Repeat("x", 5000), "\u0085\u2028"}
	for _, name := range names {
		f := inputs()
		f.Tenants[0].Name = name
		o := object(desired.KindRole, "r", 4, map[string]any{"description": name})
		o.Labels = map[string]string{name: name}
		o.Source.Path = name
		d := exampleChange()
		d.Created = append(d.Created, o)
		d.Foreign = []desired.Finding{{Path: name, Message: name}}
		c := change(d)
		c.Source = name
		p := preview.Make(c, f, rules())
		var text strings.Builder
		if err := p.Text(&text); err != nil {
			t.Fatal(err)
		}
		markdown := p.Markdown()
		for _, out := range []string{text.String(), markdown} {
			for _, r := range out {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Errorf("%q leaves %U", name, r)
				}
			}
		}
		for line := range strings.SplitSeq(markdown, "\n") {
			if outside := outsideCode(line); strings.ContainsAny(outside, "@!") || strings.Contains(outside, "script") || strings.Contains(outside, "http") || strings.Contains(outside, "gpuaas:plan") {
				t.Errorf("%q is outside a code span: %s", name, line)
			}
			if strings.Contains(line, "1 d 9 h") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 6 {
				t.Errorf("%q ends a cell: %s", name, line)
			}
		}
	}
}

func outsideCode(line string) string {
	var out strings.Builder
	for i, part := range strings.Split(line, "`") {
		if i%2 == 0 {
			out.WriteString(part)
		}
	}
	return out.String()
}

func TestTouch(t *testing.T) {
	t.Parallel()
	touched := preview.Touch(exampleChange())
	if len(touched.Nodes) != 4 || !slices.Equal(touched.SKUs, []string{"h100"}) || !touched.Caps {
		t.Errorf("%+v", touched)
	}
	if none := preview.Touch(revision.Difference{Created: []desired.Object{policy("p", 1, "billing.window_seconds", "platform", 60)}}); none.Caps || len(none.Nodes) != 0 {
		t.Errorf("%+v", none)
	}
}
