package validate

import (
	"encoding/json"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/document"
)

// partWire is the part of a unit that the child sends. Hashes and sources can be computed from the
// rest and are not sent.
type partWire struct {
	Objects  []objectWire      `json:"o,omitempty"`
	Findings []desired.Finding `json:"f,omitempty"`
	Broken   bool              `json:"b,omitempty"`
}

type objectWire struct {
	Kind        desired.Kind      `json:"k,omitempty"`
	Label       string            `json:"l,omitempty"` // Kind/name
	Name        string            `json:"n,omitempty"`
	Labels      map[string]string `json:"m,omitempty"`
	Annotations map[string]string `json:"a,omitempty"`
	Spec        json.RawMessage   `json:"s,omitempty"`
	At          placeWire         `json:"p"`
	Fields      []fieldWire       `json:"w,omitempty"`
	Faulty      bool              `json:"f,omitempty"`
}

type placeWire struct {
	Path   string `json:"f,omitempty"` // empty: the unit's own
	Line   int    `json:"l"`
	Column int    `json:"c"`
}

type fieldWire struct {
	Field string    `json:"n"`
	At    placeWire `json:"p"`
}

func (p part) wire(unit string) partWire {
	w := partWire{Findings: p.findings, Broken: p.broken}
	for _, o := range p.objects {
		to := objectWire{
			Kind: o.kind, Label: o.name, Name: o.object.Name, Labels: o.object.Labels, Annotations: o.object.Annotations,
			Spec: o.object.Spec, At: wireOf(o.at, unit), Faulty: o.faulty(),
		}
		for _, f := range o.fields {
			to.Fields = append(to.Fields, fieldWire{f.field, wireOf(f.at, unit)})
		}
		w.Objects = append(w.Objects, to)
	}
	return w
}

func (w partWire) part(unit string) *part {
	p := &part{findings: w.Findings, broken: w.Broken, objects: make([]checked, len(w.Objects))}
	for i, from := range w.Objects {
		o := checked{kind: from.Kind, name: from.Label, at: from.At.place(unit), rejected: from.Faulty, unit: unit, index: i}
		for _, f := range from.Fields {
			o.fields = append(o.fields, fieldPlace{f.Field, f.At.place(unit)})
		}
		if !o.rejected {
			o.object = desired.Object{
				Kind: from.Kind, Name: from.Name, Labels: from.Labels, Annotations: from.Annotations, Spec: from.Spec, SpecHash: desired.Hash(from.Spec),
				Source: desired.Source{Owner: desired.OwnerGit, Path: o.at.Path, Line: o.at.Line, Column: o.at.Column},
			}
		}
		p.objects[i] = o
	}
	return p
}

func wireOf(p document.Place, unit string) placeWire {
	w := placeWire{Path: p.Path, Line: p.Line, Column: p.Column}
	if w.Path == unit {
		w.Path = ""
	}
	return w
}

func (w placeWire) place(unit string) document.Place {
	if w.Path == "" {
		w.Path = unit
	}
	return document.Place{Path: w.Path, Line: w.Line, Column: w.Column}
}
