package validate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/policies"
)

// tree gathers the parts and holds the rules between objects.
type tree struct {
	part
	names map[string]bool // Kind/name
}

func (t *tree) add(p part) {
	t.objects = append(t.objects, p.objects...)
	t.findings = append(t.findings, p.findings...)
	t.broken = t.broken || p.broken
}

func (t *tree) crossCheck() {
	t.uniqueNames()
	settings := map[string]checked{}
	var environment, image *checked
	for i := range t.objects {
		o := t.objects[i]
		if len(o.findings) > 0 {
			continue
		}
		switch o.object.Kind {
		case desired.KindEnvironment:
			environment = t.onlyOne(environment, &o, "kind", "a second environment", "one environment in a tree")
			t.sources(o)
		case desired.KindPolicy:
			t.policy(settings, o)
		case desired.KindOSImage:
			if spec := read[desired.OSImage](o); spec.Default {
				image = t.onlyOne(image, &o, "spec.default", "a second default image", "one image with default: true")
			}
		case desired.KindNode:
			t.node(o)
		case desired.KindRole, desired.KindSKU, desired.KindAllocation:
		}
	}
	if len(t.objects) == 0 && len(t.findings) == 0 {
		t.findings = append(t.findings, desired.Finding{
			Code: desired.CodeSourceEmpty, Path: ".", Line: 1, Column: 1,
			Message:  SourceEmpty + ": these files declare nothing",
			Expected: "at least one object in a .cue, .yaml, .yml or .json file",
		})
	}
}

// uniqueNames names both places, because either may be the mistake.
func (t *tree) uniqueNames() {
	first := map[string]place{}
	for _, o := range t.objects {
		if o.name == "" {
			continue
		}
		if before, again := first[o.name]; again {
			kind, _, _ := strings.Cut(o.name, "/")
			t.report(desired.CodeDuplicateName, o, "metadata.name", fmt.Sprintf("a second %s of this name; the first is at %s", kind, before), "each name once")
			continue
		}
		first[o.name] = o.place("metadata.name")
		t.names[o.name] = true
	}
}

func (t *tree) onlyOne(before, o *checked, field, message, expected string) *checked {
	if before == nil {
		return o
	}
	t.report(desired.CodeOnlyOne, *o, field, fmt.Sprintf("%s; the first is %s at %s", message, before.object.Name, before.place(field)), expected)
	return before
}

// sources of one environment are told apart by their names.
func (t *tree) sources(o checked) {
	first := map[string]int{}
	for i, s := range read[desired.Environment](o).Sources {
		if before, again := first[s.Name]; again {
			t.report(desired.CodeDuplicateName, o, sourceName(i), fmt.Sprintf("a second source of this name; the first is at %s", o.place(sourceName(before))), "each name once")
			continue
		}
		first[s.Name] = i
	}
}

func (t *tree) node(o checked) {
	sku := read[desired.Node](o).SKU
	// Where something could not be read, the SKU may well be there.
	if t.broken || t.names[string(desired.KindSKU)+"/"+sku] {
		return
	}
	var have []string
	for name := range t.names {
		if sku, ok := strings.CutPrefix(name, string(desired.KindSKU)+"/"); ok {
			have = append(have, sku)
		}
	}
	slices.Sort(have)
	expected := "an SKU declared in this tree; there is none"
	if len(have) > 0 {
		expected = oneOf(have)
	}
	t.report(desired.CodeUnresolvedReference, o, "spec.sku", fmt.Sprintf("no SKU is named %q", sku), expected)
}

// policy checks one setting against its key, and that no other object sets the
// same key at the same scope.
func (t *tree) policy(settings map[string]checked, o checked) {
	spec := read[desired.Policy](o)
	if _, fault := policies.Check(spec.Key, spec.Scope, spec.Value); fault != nil {
		t.report(desired.CodePolicyInvalid, o, "spec."+fault.Field, fault.Message, fault.Expected)
		return
	}
	setting := spec.Key + " at " + spec.Scope
	if before, again := settings[setting]; again {
		t.report(desired.CodePolicyInvalid, o, "spec.key", fmt.Sprintf("%s is already set by %s at %s", setting, before.object.Name, before.place("spec.key")), "each key once at each scope")
		return
	}
	settings[setting] = o
}

func (t *tree) report(code string, o checked, field, message, expected string) {
	t.findings = append(t.findings, o.place(field).finding(code, o.name, field, message, expected))
}

// mostFindings is more than a person reads; a hostile file could have a million.
const mostFindings = 100

func (t *tree) result() Result {
	slices.SortStableFunc(t.findings, func(a, b desired.Finding) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Field, b.Field))
	})
	t.findings = slices.Compact(t.findings)
	if n := len(t.findings) - mostFindings; n > 0 {
		t.findings = append(t.findings[:mostFindings], desired.Finding{
			Code: desired.CodeMoreFindings, Path: t.findings[mostFindings].Path, Line: 1, Column: 1, Message: fmt.Sprintf("and %d more findings here and below", n),
		})
	}
	if len(t.findings) > 0 {
		return Result{Findings: t.findings}
	}
	rank := map[desired.Kind]int{}
	for i, k := range desired.Kinds() {
		rank[k] = i
	}
	var r Result
	for _, o := range t.objects {
		r.Objects = append(r.Objects, o.object)
	}
	slices.SortStableFunc(r.Objects, func(a, b desired.Object) int {
		return cmp.Or(rank[a.Kind]-rank[b.Kind], strings.Compare(a.Name, b.Name))
	})
	return r
}

// read decodes a spec that the schema has accepted. Integers stay exact.
func read[T any](o checked) T {
	var spec T
	d := json.NewDecoder(bytes.NewReader(o.object.Spec))
	d.UseNumber()
	if err := d.Decode(&spec); err != nil {
		var zero T // cannot happen to an accepted spec; the rules refuse the zero value
		return zero
	}
	return spec
}
