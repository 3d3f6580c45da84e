package validate

import (
	"bytes"

	"github.com/gpuaas/gpuaas/desired"
)

// quickly checks a document with the generated validators. It is what CUE would
// have answered, places and all, or nothing.
func (c *Checker) quickly(n *node, at place, locate func(spot) place) (checked, bool) {
	if c.slow {
		return checked{}, false
	}
	found, ok := quick(n, c.scratch)
	if !ok {
		return checked{}, false
	}
	c.scratch = found.out // the next document overwrites it
	about := n.get("metadata")
	name := about.get("name").text
	spec := bytes.Clone(found.spec)
	o := checked{
		at: at, kind: found.kind, name: string(found.kind) + "/" + name,
		object: desired.Object{
			Kind: found.kind, Name: name, Labels: about.get("labels").texts(), Annotations: about.get("annotations").texts(),
			Spec: spec, SpecHash: desired.Hash(spec),
			Source: desired.Source{Owner: desired.OwnerGit, Path: at.path, Line: at.line, Column: at.column},
		},
	}
	for _, f := range crossFields[o.kind] {
		if m := n.member(f.names...); m != nil {
			o.fields = append(o.fields, fieldPlace{f.name, locate(m.at)})
		}
	}
	if sources := n.path("spec", "sources"); o.kind == desired.KindEnvironment && sources != nil {
		for i := range sources.items {
			o.fields = append(o.fields, fieldPlace{sourceName(i), locate(sources.items[i].member("name").at)})
		}
	}
	return o, true
}

// member finds a member by its path; nil when there is none.
func (n *node) member(names ...string) (found *member) {
	for _, name := range names {
		if found = n.named(name); found == nil {
			return nil
		}
		n = &found.value
	}
	return found
}
