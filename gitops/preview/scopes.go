package preview

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/policies"
)

// ExpectedScope describes the accepted scopes.
const ExpectedScope = "the name of an existing SKU, node or tenant, or the id of a tenant, project or user"

// subject returns the subject to which a scope was first applied, else what it names now.
func (f Inputs) subject(scope policies.Scope) policies.Scope {
	return cmp.Or(f.Applied[scope], f.Subjects[scope])
}

// ScopeFault returns the reason why a new or changed policy cannot have this scope, or an empty string.
// A tenant that was renamed still has the values of its former name, and a value for that name would be
// applied to it and not to the tenant that has the name now.
func (f Inputs) ScopeFault(scope policies.Scope) string {
	now, applied := f.Subjects[scope], f.Applied[scope]
	switch {
	case now == "" && applied == "":
		return fmt.Sprintf("%q names nothing", scope)
	case applied != "" && now != applied:
		return fmt.Sprintf("%q was applied to %s, which has another name now", scope, applied)
	}
	return ""
}

// scopeFindings reports the written policies whose scope cannot be applied. SKUs and nodes of the same
// change exist when the policies are applied.
func (e effect) scopeFindings() []desired.Finding {
	written := slices.Clone(e.created)
	for _, p := range slices.Concat(e.changed, e.adopted) {
		written = append(written, p.New)
	}
	made := map[policies.Scope]bool{}
	for _, o := range written {
		made[policies.In(scopeLevels[o.Kind], o.Name)] = true
	}
	list := []desired.Finding{}
	for _, o := range slices.SortedFunc(slices.Values(written), byKey) {
		scope := policies.Scope(specOf[desired.Policy](o).Scope)
		if o.Kind != desired.KindPolicy || made[scope] {
			continue
		}
		if fault := e.inputs.ScopeFault(scope); fault != "" {
			list = append(list, desired.Finding{
				Path: o.Source.Path, Line: o.Source.Line, Column: o.Source.Column, Object: label(o), Field: "spec.scope", Message: fault, Expected: ExpectedScope,
			})
		}
	}
	return list
}

// scopeLevels are the levels of the kinds whose objects are scopes.
var scopeLevels = map[desired.Kind]policies.Level{desired.KindSKU: policies.LevelSKU, desired.KindNode: policies.LevelNode}
