package preview

import (
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/policies"
)

// sensitivePolicies are the prefixes of the policy keys that limit what a change may do, who signs in,
// and what is charged.
var sensitivePolicies = []string{"gitops.", "auth.", "node.mass_", "billing.", "payment."}

// Sensitive returns the objects of a difference whose change needs a second person in any case. They
// define the approval rules, the sign-in, the Git sources, the rights and the prices, so an author
// who changes them alone could remove the rules that limit the next change.
func Sensitive(d revision.Difference) []desired.Object {
	m := meantBy(d)
	list := []desired.Object{}
	for _, o := range m.created {
		if o.Kind == desired.KindSKU || sensitive(o) { // a new SKU has a price
			list = append(list, o)
		}
	}
	for _, o := range m.deleted {
		if sensitive(o) {
			list = append(list, o)
		}
	}
	for _, p := range slices.Concat(m.changed, m.adopted) {
		price := p.New.Kind == desired.KindSKU && specOf[desired.SKU](p.Old).Price != specOf[desired.SKU](p.New).Price
		if price || sensitive(p.Old) || sensitive(p.New) {
			list = append(list, p.New)
		}
	}
	return list
}

// sensitive reports whether every change of an object is sensitive.
func sensitive(o desired.Object) bool {
	switch o.Kind {
	case desired.KindEnvironment, desired.KindRole:
		return true
	case desired.KindPolicy:
		key := specOf[desired.Policy](o).Key
		return slices.ContainsFunc(sensitivePolicies, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	case desired.KindStorageClass: // it has the price of all files
		return true
	case desired.KindSKU, desired.KindOSImage, desired.KindNode, desired.KindAllocation:
	}
	return false
}

// Requires returns the requirements of a change: those that apply now and those that the change
// introduces. A change that lowers them is checked against the old ones, one that raises them against
// the new ones.
func Requires(d revision.Difference, now []string) []string {
	all := slices.Clone(now)
	m := meantBy(d)
	written := slices.Clone(m.created)
	for _, p := range slices.Concat(m.changed, m.adopted) {
		written = append(written, p.New)
	}
	for _, o := range written {
		if o.Kind == desired.KindPolicy {
			all = append(all, requiredBy(specOf[desired.Policy](o))...)
		}
	}
	for _, o := range m.deleted {
		if o.Kind == desired.KindPolicy && specOf[desired.Policy](o).Key == string(policies.GitOpsApplyRequires) {
			all = append(all, defaultRequires()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func requiredBy(p desired.Policy) []string {
	if p.Key != string(policies.GitOpsApplyRequires) {
		return nil
	}
	value, fault := policies.Check(p.Key, p.Scope, p.Value)
	if list, ok := value.([]string); ok && fault == nil {
		return list
	}
	return nil
}

func defaultRequires() []string {
	k, _ := policies.Define(string(policies.GitOpsApplyRequires))
	list, _ := k.Default.([]string)
	return list
}
