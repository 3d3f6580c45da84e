package validate

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/parser"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/document"
	"github.com/gpuaas/gpuaas/desired/validate/explain"
)

// cueFolder evaluates the CUE files of one folder as one instance, and reads
// the objects out of its ordinary top-level fields: an object, a list of
// objects, or a struct of objects. Hidden fields, definitions and let clauses
// are the author's own and declare nothing.
func cueFolder(c *Checker, paths []string, files map[string][]byte) part {
	p := part{}
	parsed := p.parse(paths, files)
	if p.broken {
		return p
	}
	p.repeats(parsed)

	inst := build.NewContext().NewInstance(path.Dir(paths[0]), nil)
	for _, f := range parsed {
		if err := inst.AddSyntax(f); err != nil {
			return p.fail(explain.EvaluationFindings(desired.CodeCUEEvaluation, err, document.Place{Path: f.Filename, Line: 1, Column: 1}))
		}
	}
	at := document.Place{Path: paths[0], Line: 1, Column: 1}
	// A context of its own: what a folder leaves behind goes with it.
	if err := c.renew(); err != nil {
		return p.fail(explain.EvaluationFindings(desired.CodeEvaluatorFailed, errors.Promote(err, "schema"), at))
	}
	c.left = 0
	root := c.ctx.BuildInstance(inst)
	if err := root.Validate(); err != nil {
		return p.fail(explain.EvaluationFindings(desired.CodeCUEEvaluation, err, at))
	}
	p.walk(c, root, at)
	return p
}

// parse parses the files and rejects imports of other modules, of the network, and of tool
// packages: a tree must be complete by itself.
func (p *part) parse(paths []string, files map[string][]byte) []*ast.File {
	var parsed []*ast.File
	for _, name := range paths {
		at := document.Place{Path: name, Line: 1, Column: 1}
		if strings.HasSuffix(name, "_tool.cue") || strings.HasSuffix(name, "_test.cue") {
			p.failAt(desired.CodeToolFile, at, "", "is a file for CUE's own tools", "declarations only")
			continue
		}
		f, err := parser.ParseFile(name, files[name])
		if err != nil {
			code := desired.CodeCUESyntax
			if strings.Contains(err.Error(), "maximum nesting depth") {
				code = desired.CodeTooDeep
			}
			p.fail(explain.EvaluationFindings(code, errors.Promote(err, "syntax"), at))
			continue
		}
		if where, deep := tooDeep(f); deep {
			p.failAt(desired.CodeTooDeep, where, "", fmt.Sprintf("is nested more than %d deep", deepestSyntax), "less nesting, shorter expressions")
			continue
		}
		if len(parsed) > 0 && f.PackageName() != parsed[0].PackageName() {
			p.failAt(desired.CodePackageMixed, at, "", fmt.Sprintf("is of package %q", f.PackageName()), fmt.Sprintf("package %q, as %s in the same folder", parsed[0].PackageName(), parsed[0].Filename))
			continue
		}
		p.rejectImports(f)
		parsed = append(parsed, f)
	}
	return parsed
}

// deepestSyntax is deeper than authors write. The parser's own limit is 10,000, and evaluating that
// needs more memory than a child has.
const deepestSyntax = 256

// tooDeep finds the first place that is.
func tooDeep(f *ast.File) (at document.Place, deep bool) {
	depth := 0
	ast.Walk(f, func(n ast.Node) bool {
		if depth++; depth > deepestSyntax && !deep {
			deep = true
			if at, deep = document.PlaceAt(n.Pos()); !deep {
				at, deep = document.Place{Path: f.Filename, Line: 1, Column: 1}, true
			}
		}
		return !deep
	}, func(ast.Node) { depth-- })
	return at, deep
}

func (p *part) rejectImports(f *ast.File) {
	for _, d := range f.Decls {
		ast.Walk(d, func(n ast.Node) bool {
			// Without an effect here, and with one wherever else the file is evaluated.
			if a, ok := n.(*ast.Attribute); ok && (strings.HasPrefix(a.Text, "@embed") || strings.HasPrefix(a.Text, "@extern")) {
				at, _ := document.PlaceAt(a.Pos())
				p.failAt(desired.CodeImportRejected, at, "", "reads other files with "+document.Printable(a.Text), "the value written out: nothing else is read")
			}
			return true
		}, nil)
	}
	for spec := range f.ImportSpecs() {
		// CUE's own packages have no dot in their first element, and those under tool run programs.
		name := strings.Trim(spec.Path.Value, `"`)
		if first, _, _ := strings.Cut(name, "/"); strings.Contains(first, ".") || first == "tool" {
			at, _ := document.PlaceAt(spec.Pos())
			p.failAt(desired.CodeImportRejected, at, "", fmt.Sprintf("imports %q", name), "packages that are part of CUE: nothing else is read, here or from the network")
		}
	}
}

// repeats rejects an object, or a list of objects, that is written in two places. CUE would unify
// the two, and two nodes of one name would become one.
func (p *part) repeats(files []*ast.File) {
	seen := map[string]document.Place{}
	for _, f := range files {
		for _, top := range fieldsOf(f.Decls) {
			inner, ok := top.field.Value.(*ast.StructLit)
			if !ok {
				p.checkUnique(seen, top.name, top)
				continue
			}
			for _, in := range fieldsOf(inner.Elts) {
				p.checkUnique(seen, top.name+"."+in.name, in)
			}
		}
	}
}

func (p *part) checkUnique(seen map[string]document.Place, name string, f labelled) {
	at, ok := document.PlaceAt(f.field.Pos())
	if !ok {
		return
	}
	if first, again := seen[name]; again {
		p.findings = append(p.findings, at.Finding(desired.CodeDuplicateName, "", name, fmt.Sprintf("is declared a second time; the first is at %s:%d:%d", first.Path, first.Line, first.Column), "one place for each object"))
		return
	}
	seen[name] = at
}

type labelled struct {
	name  string
	field *ast.Field
}

// fieldsOf lists ordinary fields with a name of their own.
func fieldsOf(decls []ast.Decl) []labelled {
	var fields []labelled
	for _, d := range decls {
		f, ok := d.(*ast.Field)
		if !ok {
			continue
		}
		name, _, err := ast.LabelName(f.Label)
		if err == nil && !strings.HasPrefix(name, "_") && !strings.HasPrefix(name, "#") {
			fields = append(fields, labelled{name, f})
		}
	}
	return fields
}

// walk finds the objects of an instance.
func (p *part) walk(c *Checker, root cue.Value, at document.Place) {
	if isObject(root) {
		p.addObject(c, root, firstPlace(root, at))
		return
	}
	for name, v := range explain.EachField(root) {
		switch {
		case len(p.findings) >= mostFindings:
			return
		case v.IncompleteKind() == cue.ListKind:
			p.takeList(c, v, at)
		case v.IncompleteKind() == cue.StructKind && isObject(v):
			p.addObject(c, v, document.PlaceOf(v, at))
		case v.IncompleteKind() == cue.StructKind:
			p.takeStruct(c, name, v, document.PlaceOf(v, at))
		default:
			p.failAt(desired.CodeLooseValue, document.PlaceOf(v, at), name, "is "+explain.KindName(v)+", which declares nothing", "an object, a list or a struct of objects; helpers begin with _ or #")
		}
	}
}

func (p *part) takeList(c *Checker, v cue.Value, at document.Place) {
	it, err := v.List()
	if err != nil {
		p.fail(explain.EvaluationFindings(desired.CodeCUEEvaluation, err, document.PlaceOf(v, at)))
		return
	}
	for it.Next() && len(p.findings) < mostFindings {
		p.addObject(c, it.Value(), document.PlaceOf(it.Value(), document.PlaceOf(v, at)))
	}
}

func (p *part) takeStruct(c *Checker, name string, v cue.Value, at document.Place) {
	found := 0
	for _, inner := range explain.EachField(v) {
		p.addObject(c, inner, document.PlaceOf(inner, at))
		found++
	}
	// A disjunction without a decision has no fields and must not be treated as an empty struct.
	if found == 0 && v.Validate(cue.Concrete(true)) != nil {
		p.failAt(desired.CodeNotConcrete, at, name, "could be one of several values", "one value")
	}
}

func (p *part) addObject(c *Checker, v cue.Value, at document.Place) {
	p.add(c.check(v, at))
}

// isObject distinguishes an object from a struct of objects, even if the object has no kind.
func isObject(v cue.Value) bool {
	for _, name := range []string{"kind", "apiVersion", "metadata", "spec"} {
		if v.LookupPath(cue.MakePath(cue.Str(name))).Exists() {
			return true
		}
	}
	return false
}

// firstPlace returns the position of a file that consists of one object.
func firstPlace(root cue.Value, at document.Place) document.Place {
	var places []document.Place
	for _, v := range explain.EachField(root) {
		if p, ok := document.PlaceAt(v.Pos()); ok {
			places = append(places, p)
		}
	}
	if len(places) == 0 {
		return at
	}
	return slices.MinFunc(places, func(a, b document.Place) int {
		if a.Path != b.Path {
			return strings.Compare(a.Path, b.Path)
		}
		return a.Line - b.Line
	})
}
