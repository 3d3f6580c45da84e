package validate

import (
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/document"
)

// part contains the objects and findings of one unit.
type part struct {
	objects  []checked // with and without faults
	findings []desired.Finding
	broken   bool // some declarations could not be read, so no name is known to be missing
}

// add adds one checked object.
func (p *part) add(o checked) {
	if o.kind == desired.KindAllocation {
		// Its other faults do not matter, and mending them would not help.
		f := o.place("kind").Finding(desired.CodeManagedByAPI, o.label(), "kind", "an allocation cannot be declared in files", "allocations made through the API or gpuaas alloc create")
		o.findings = []desired.Finding{f}
	}
	p.objects = append(p.objects, o)
	p.findings = append(p.findings, o.findings...)
	p.broken = p.broken || o.name == ""
}

// fail records declarations that could not be read at all.
func (p *part) fail(findings []desired.Finding) part {
	p.findings = append(p.findings, findings...)
	p.broken = true
	return *p
}

func (p *part) failAt(code string, at document.Place, field, message, expected string) {
	p.fail([]desired.Finding{at.Finding(code, "", field, message, expected)})
}
