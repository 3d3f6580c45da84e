package validate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/definition"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/policies"
)

// set contains objects by address. They are sorted when a rule needs it.
type set map[*checked]struct{}

// rules are the rules between objects. Their indexes stay from one tree to the next. A change
// touches some keys, and only those are checked again.
type rules struct {
	names        map[string]set // by Kind/name
	settings     map[string]set // policies by key and scope
	users        map[string]set // nodes by the SKU they name
	environments set
	images       set // that are the default
	classes      set // of storage
	defaults     set // of these, that are the default
	total        int // objects, with and without faults

	touched  map[string]bool // names
	set      map[string]bool // settings
	only     bool            // environments, images or storage classes
	fresh    []*checked
	findings []desired.Finding
	broken   bool // some declarations could not be read, so no name is known to be missing
}

func newRules() *rules {
	r := &rules{names: map[string]set{}, settings: map[string]set{}, users: map[string]set{}, environments: set{}, images: set{}, classes: set{}, defaults: set{}}
	r.reset()
	return r
}

// reset resets the touched keys and the findings of the last change.
func (r *rules) reset() {
	r.touched, r.set, r.only = map[string]bool{}, map[string]bool{}, false
	r.fresh, r.findings, r.broken = nil, nil, false
}

func put(in map[string]set, key string, o *checked) {
	if in[key] == nil {
		in[key] = set{}
	}
	in[key][o] = struct{}{}
}

func addTo(from map[string]set, key string, o *checked) {
	delete(from[key], o)
	if len(from[key]) == 0 {
		delete(from, key)
	}
}

func (r *rules) add(p *part) {
	r.findings = append(r.findings, p.findings...)
	r.broken = r.broken || p.broken
	for i := range p.objects {
		o := &p.objects[i]
		r.total++
		if o.name != "" {
			put(r.names, o.name, o)
			r.touched[o.name] = true
		}
		if o.faulty() {
			continue
		}
		r.fresh = append(r.fresh, o)
		r.index(o, put)
	}
}

func (r *rules) remove(p *part) {
	for i := range p.objects {
		o := &p.objects[i]
		r.total--
		if o.name != "" {
			addTo(r.names, o.name, o)
			r.touched[o.name] = true
		}
		if !o.faulty() {
			r.index(o, addTo)
		}
	}
}

// index adds an object to the indexes of its kind, or removes it.
func (r *rules) index(o *checked, into func(map[string]set, string, *checked)) {
	switch o.object.Kind {
	case desired.KindEnvironment:
		r.onlyOne(r.environments, o, into)
	case desired.KindOSImage:
		if read[desired.OSImage](o).Default {
			r.onlyOne(r.images, o, into)
		}
	case desired.KindStorageClass:
		r.onlyOne(r.classes, o, into)
		if read[desired.StorageClass](o).Default {
			r.onlyOne(r.defaults, o, into)
		}
	case desired.KindPolicy:
		spec := read[desired.Policy](o)
		if _, fault := policies.Check(spec.Key, spec.Scope, spec.Value); fault != nil {
			return // reported once, as what it is
		}
		setting := spec.Key + " at " + spec.Scope
		into(r.settings, setting, o)
		r.set[setting] = true
	case desired.KindNode:
		into(r.users, read[desired.Node](o).SKU, o)
	case desired.KindRole, desired.KindSKU, desired.KindAllocation:
	}
}

func (r *rules) onlyOne(those set, o *checked, into func(map[string]set, string, *checked)) {
	r.only = true
	one := map[string]set{"": those}
	if into(one, "", o); one[""] == nil {
		clear(those)
	}
}

// check checks the keys that were touched since reset.
func (r *rules) check() []desired.Finding {
	for name := range r.touched {
		r.uniqueName(name)
	}
	if r.only {
		r.alone(r.environments, "kind", "a second environment", "one environment in a tree")
		r.alone(r.images, "spec.default", "a second default image", "one image with default: true")
		r.alone(r.defaults, "spec.default", "a second default storage class", oneClass)
		if len(r.classes) > 0 && len(r.defaults) == 0 && !r.broken {
			r.report(desired.CodeOnlyOne, r.classes.inOrder()[0], "spec.default", "no storage class is the default", oneClass)
		}
	}
	for setting := range r.set {
		r.setting(setting)
	}
	for _, o := range r.fresh {
		if u := desired.FindUndeliverable(o.object); u != nil {
			r.report(u.Code, o, u.Field, u.Message, u.Expected)
		}
		switch o.object.Kind { //nolint:exhaustive // the others have no rules of their own
		case desired.KindPolicy:
			spec := read[desired.Policy](o)
			if _, fault := policies.Check(spec.Key, spec.Scope, spec.Value); fault != nil {
				r.report(policyCode(fault), o, "spec."+fault.Field, fault.Message, fault.Expected)
			}
		case desired.KindRole:
			if fault := policies.CheckRole(o.object.Name, read[desired.Role](o).Operations); fault != nil {
				r.report(desired.CodeRoleInvalid, o, fault.Field, fault.Message, fault.Expected)
			}
		case desired.KindEnvironment:
			r.sources(o)
			r.storage(o)
		case desired.KindNode:
			r.node(o)
		}
	}
	for name := range r.touched {
		if sku, ok := strings.CutPrefix(name, string(desired.KindSKU)+"/"); ok && r.names[name] == nil {
			for o := range r.users[sku] {
				r.node(o)
			}
		}
	}
	if r.total == 0 && len(r.findings) == 0 {
		return []desired.Finding{{
			Code: desired.CodeSourceEmpty, Path: ".", Line: 1, Column: 1,
			Message:  SourceEmpty + ": these files declare nothing",
			Expected: "at least one object in a .cue, .yaml, .yml or .json file",
		}}
	}
	return sortFindings(r.findings)
}

const oneClass = "one storage class with default: true"

func policyCode(f *policies.Fault) string {
	if f.Code == errs.PolicyNotInForce {
		return desired.CodePolicyNotInForce
	}
	return desired.CodePolicyInvalid
}

// inOrder lists objects as the files do.
func (s set) inOrder() []*checked {
	return slices.SortedFunc(maps.Keys(s), func(a, b *checked) int {
		return cmp.Or(strings.Compare(a.unit, b.unit), a.index-b.index)
	})
}

// uniqueName names both places, because either may be the mistake.
func (r *rules) uniqueName(name string) {
	if len(r.names[name]) < 2 {
		return
	}
	all := r.names[name].inOrder()
	kind, _, _ := strings.Cut(name, "/")
	for _, o := range all[1:] {
		r.report(desired.CodeDuplicateName, o, "metadata.name", fmt.Sprintf("a second %s of this name; the first is at %s", kind, all[0].place("metadata.name")), "each name once")
	}
}

func (r *rules) alone(those set, field, message, expected string) {
	if len(those) < 2 {
		return
	}
	all := those.inOrder()
	for _, o := range all[1:] {
		r.report(desired.CodeOnlyOne, o, field, fmt.Sprintf("%s; the first is %s at %s", message, all[0].object.Name, all[0].place(field)), expected)
	}
}

// setting is that no two objects set one key at one scope.
func (r *rules) setting(setting string) {
	if len(r.settings[setting]) < 2 {
		return
	}
	all := r.settings[setting].inOrder()
	for _, o := range all[1:] {
		r.report(desired.CodePolicyInvalid, o, "spec.key", fmt.Sprintf("%s is already set by %s at %s", setting, all[0].object.Name, all[0].place("spec.key")), "each key once at each scope")
	}
}

// sources checks that the names of the Git sources of one environment differ.
func (r *rules) sources(o *checked) {
	first := map[string]int{}
	for i, s := range read[desired.Environment](o).Sources {
		if before, again := first[s.Name]; again {
			r.report(desired.CodeDuplicateName, o, sourceName(i), fmt.Sprintf("a second source of this name; the first is at %s", o.place(sourceName(before))), "each name once")
			continue
		}
		first[s.Name] = i
	}
}

// storage rejects a key that no object would be encrypted with.
func (r *rules) storage(o *checked) {
	if s := read[desired.Environment](o).Storage; s.KMSKeyID != "" && s.SSE != desired.EncryptionKMS {
		r.report(desired.CodeInvalidValue, o, "spec.storage.kmsKeyId", "names a key, and sse is "+s.SSE, "no key, or sse: "+desired.EncryptionKMS)
	}
}

func (r *rules) node(o *checked) {
	sku := read[desired.Node](o).SKU
	// Where something could not be read, the SKU may well be there.
	if r.broken || r.names[string(desired.KindSKU)+"/"+sku] != nil {
		return
	}
	var have []string
	for name := range r.names {
		if sku, ok := strings.CutPrefix(name, string(desired.KindSKU)+"/"); ok {
			have = append(have, sku)
		}
	}
	slices.Sort(have)
	expected := "an SKU declared in this tree; there is none"
	if len(have) > 0 {
		expected = definition.OneOf(have)
	}
	r.report(desired.CodeUnresolvedReference, o, "spec.sku", fmt.Sprintf("no SKU is named %q", sku), expected)
}

func (r *rules) report(code string, o *checked, field, message, expected string) {
	if len(r.findings) <= 2*mostFindings { // beyond, they are only counted as more
		r.findings = append(r.findings, o.place(field).Finding(code, o.name, field, message, expected))
	}
}

// mostFindings is more than a person reads; a hostile file could have a million.
const mostFindings = 100

// sortFindings sorts the findings, removes duplicates, and limits their number.
func sortFindings(findings []desired.Finding) []desired.Finding {
	slices.SortFunc(findings, func(a, b desired.Finding) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Field, b.Field), strings.Compare(a.Message, b.Message))
	})
	findings = slices.Compact(findings)
	if n := len(findings) - mostFindings; n > 0 {
		findings = append(findings[:mostFindings:mostFindings], desired.Finding{
			Code: desired.CodeMoreFindings, Path: findings[mostFindings].Path, Line: 1, Column: 1, Message: fmt.Sprintf("and %d more findings here and below", n),
		})
	}
	return findings
}

// inApplyOrder sorts objects by kind and name.
func inApplyOrder(objects []desired.Object) {
	rank := map[desired.Kind]int{}
	for i, k := range desired.Kinds() {
		rank[k] = i
	}
	slices.SortStableFunc(objects, func(a, b desired.Object) int {
		return cmp.Or(rank[a.Kind]-rank[b.Kind], strings.Compare(a.Name, b.Name))
	})
}

// read decodes a spec that the schema has accepted. Integers stay exact.
func read[T any](o *checked) T {
	var spec T
	d := json.NewDecoder(bytes.NewReader(o.object.Spec))
	d.UseNumber()
	if err := d.Decode(&spec); err != nil {
		var zero T // impossible for a valid spec; the rules reject the zero value
		return zero
	}
	return spec
}
