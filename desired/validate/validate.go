// Package validate decides whether files, or one object written through the
// API, are desired state. It owns the only evaluator of CUE, gives every object
// its place in its author's own file, and fills in the defaults, so that a
// comparison never mistakes an omitted field for drift.
//
// It refuses to guess: an unknown field, a second object of one name, a key
// written twice or a reference to nothing is a finding, and one finding refuses
// the whole tree. Files are evaluated in a child process with limits, because
// CUE has no budget of its own; what tenants write is data and never CUE.
package validate

import (
	"path"
	"slices"
	"sort"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/document"
)

//go:generate go run ./gen

// SourceEmpty begins the message of a tree that declares nothing.
const SourceEmpty = "SourceEmpty"

// Result is the answer about a tree: its objects in apply order, or what is
// wrong with it. Objects are empty when there is any finding.
type Result struct {
	Objects  []desired.Object  `json:"objects"`
	Findings []desired.Finding `json:"findings"`
	Delta    *Delta            `json:"-"` // of a Cache
}

// OK says that the tree may be applied.
func (r Result) OK() bool { return len(r.Findings) == 0 }

// evaluate does the work in this process, whatever it costs. progress hears the
// name of each unit before it is touched: when the process is killed, that is
// the one to blame.
func evaluate(files map[string][]byte, progress func(unit string)) (Result, error) {
	c, err := New()
	if err != nil {
		return Result{}, err
	}
	parts := map[string]*part{}
	for _, u := range unitsOf(files) {
		progress(u.name)
		parts[u.name] = u.evaluate(c, files).wire(u.name).part(u.name)
	}
	return together(parts), nil
}

// together holds the rules between objects against all parts of a tree.
func together(parts map[string]*part) Result {
	r := newRules()
	for _, p := range parts {
		r.add(p)
	}
	if findings := r.check(); len(findings) > 0 {
		return Result{Findings: findings}
	}
	var result Result
	for _, p := range parts {
		for i := range p.objects {
			result.Objects = append(result.Objects, p.objects[i].object)
		}
	}
	inApplyOrder(result.Objects)
	return result
}

// unit is what is evaluated together: one YAML or JSON file, or the CUE files
// of one package in one folder.
type unit struct {
	name  string
	paths []string
}

func unitsOf(files map[string][]byte) []unit {
	folders := map[string][]string{}
	var units []unit
	for name := range files {
		switch {
		case !document.Readable(name):
		case path.Ext(name) == ".cue":
			folders[path.Dir(name)] = append(folders[path.Dir(name)], name)
		default:
			units = append(units, unit{name, []string{name}})
		}
	}
	for _, paths := range folders {
		slices.Sort(paths)
		units = append(units, unit{paths[0], paths})
	}
	sort.Slice(units, func(i, j int) bool { return units[i].name < units[j].name })
	return units
}

func (u unit) evaluate(c *Checker, files map[string][]byte) part {
	p := part{}
	for _, name := range u.paths {
		if at := document.FirstInvalid(files[name]); at >= 0 {
			p.failAt(desired.CodeNotUTF8, document.LinesOf(name, files[name]).Place(at), "", "is not UTF-8", "a file in UTF-8")
		}
	}
	if p.broken {
		return p
	}
	switch path.Ext(u.name) {
	case ".cue":
		return cueFolder(c, u.paths, files)
	case ".json":
		return jsonFile(c, u.name, files[u.name])
	default:
		return yamlFile(c, u.name, files[u.name])
	}
}
