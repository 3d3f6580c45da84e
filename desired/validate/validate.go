// Package validate checks files, or one object written through the API, against the schema. It is
// the only package that evaluates CUE. It finds the position of every object in the author's file
// and fills in the defaults, so that a comparison never reports an omitted field as drift.
//
// It does not guess: an unknown field, a second object of one name, a duplicate key or a reference
// to a missing object is a finding, and one finding rejects the whole tree. Files are evaluated in
// a child process with limits, because CUE itself has none. Input of tenants is data and never CUE.
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

// Result contains the objects of a tree, sorted as they are applied, or its findings. With any finding there are
// no objects.
type Result struct {
	Objects  []desired.Object  `json:"objects"`
	Findings []desired.Finding `json:"findings"`
	Delta    *Delta            `json:"-"` // of a Cache
}

// OK reports whether the tree may be applied.
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

// together checks the rules between objects for all parts of a tree.
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

// unit is evaluated as a whole: one YAML or JSON file, or the CUE files of one package in one
// folder.
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
