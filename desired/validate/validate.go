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
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/gpuaas/gpuaas/desired"
)

//go:generate go run ./gen

// SourceEmpty begins the message of a tree that declares nothing.
const SourceEmpty = "SourceEmpty"

// Result is the answer about a tree: its objects in apply order, or what is
// wrong with it. Objects are empty when there is any finding.
type Result struct {
	Objects  []desired.Object  `json:"objects"`
	Findings []desired.Finding `json:"findings"`
}

// OK says that the tree may be applied.
func (r Result) OK() bool { return len(r.Findings) == 0 }

// Readable says whether a file of this name holds declarations. Others, such as
// a README beside them, are left alone, and so is whatever begins with a dot or
// belongs to CUE's own module folder.
func Readable(name string) bool {
	for element := range strings.SplitSeq(name, "/") {
		if element == "cue.mod" || strings.HasPrefix(element, ".") && element != "." && element != ".." {
			return false
		}
	}
	switch path.Ext(name) {
	case ".cue", ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// evaluate does the work in this process, whatever it costs. progress hears the
// name of each unit before it is touched: when the process is killed, that is
// the one to blame.
func evaluate(files map[string][]byte, progress func(unit string)) (Result, error) {
	c, err := New()
	if err != nil {
		return Result{}, err
	}
	t := tree{names: map[string]bool{}}
	for _, u := range unitsOf(files) {
		progress(u.name)
		t.add(u.evaluate(c, files))
	}
	t.crossCheck()
	return t.result(), nil
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
		case !Readable(name):
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
	switch path.Ext(u.name) {
	case ".cue":
		return cueFolder(c, u.paths, files)
	case ".json":
		return jsonFile(c, u.name, files[u.name])
	default:
		return yamlFile(c, u.name, files[u.name])
	}
}

// place is where something stands in a file that a person wrote.
type place struct {
	path         string
	line, column int
}

func (p place) String() string { return fmt.Sprintf("%s:%d:%d", p.path, p.line, p.column) }

func (p place) finding(code, object, field, message, expected string) desired.Finding {
	return desired.Finding{
		Code: code, Path: p.path, Line: p.line, Column: p.column,
		Object: object, Field: field, Message: message, Expected: expected,
	}
}
