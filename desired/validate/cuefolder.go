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
			return p.fail(evaluationFindings(desired.CodeCUEEvaluation, err, place{f.Filename, 1, 1}))
		}
	}
	at := place{paths[0], 1, 1}
	// A context of its own: what a folder leaves behind goes with it.
	if err := c.renew(); err != nil {
		return p.fail(evaluationFindings(desired.CodeEvaluatorFailed, errors.Promote(err, "schema"), at))
	}
	c.left = 0
	root := c.ctx.BuildInstance(inst)
	if err := root.Validate(); err != nil {
		return p.fail(evaluationFindings(desired.CodeCUEEvaluation, err, at))
	}
	p.walk(c, root, at)
	return p
}

// parse reads the syntax and refuses what needs more than these files: other
// modules, the network, tool files.
func (p *part) parse(paths []string, files map[string][]byte) []*ast.File {
	var parsed []*ast.File
	for _, name := range paths {
		at := place{name, 1, 1}
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
			p.fail(evaluationFindings(code, errors.Promote(err, "syntax"), at))
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
		p.refuseImports(f)
		parsed = append(parsed, f)
	}
	return parsed
}

// deepestSyntax is more than a person writes. The parser goes on to 10,000, and
// evaluating that takes more memory than a child has.
const deepestSyntax = 256

// tooDeep finds the first place that is.
func tooDeep(f *ast.File) (at place, deep bool) {
	depth := 0
	ast.Walk(f, func(n ast.Node) bool {
		if depth++; depth > deepestSyntax && !deep {
			deep = true
			if at, deep = placeAt(n.Pos()); !deep {
				at, deep = place{f.Filename, 1, 1}, true
			}
		}
		return !deep
	}, func(ast.Node) { depth-- })
	return at, deep
}

func (p *part) refuseImports(f *ast.File) {
	for _, d := range f.Decls {
		ast.Walk(d, func(n ast.Node) bool {
			// Without an effect here, and with one wherever else the file is evaluated.
			if a, ok := n.(*ast.Attribute); ok && (strings.HasPrefix(a.Text, "@embed") || strings.HasPrefix(a.Text, "@extern")) {
				at, _ := placeAt(a.Pos())
				p.failAt(desired.CodeImportRefused, at, "", "asks for other files with "+printable(a.Text), "the value written out: nothing else is read")
			}
			return true
		}, nil)
	}
	for spec := range f.ImportSpecs() {
		// Packages that come with CUE have no dot in their first element, and
		// those under tool run programs.
		name := strings.Trim(spec.Path.Value, `"`)
		if first, _, _ := strings.Cut(name, "/"); strings.Contains(first, ".") || first == "tool" {
			at, _ := placeAt(spec.Pos())
			p.failAt(desired.CodeImportRefused, at, "", fmt.Sprintf("imports %q", name), "packages that come with CUE: nothing else is read, here or from the network")
		}
	}
}

// repeats refuses an object, or a list of them, that is declared in two places.
// CUE would unify the two, and two nodes of one name would become one.
func (p *part) repeats(files []*ast.File) {
	seen := map[string]place{}
	for _, f := range files {
		for _, top := range fieldsOf(f.Decls) {
			inner, ok := top.field.Value.(*ast.StructLit)
			if !ok {
				p.once(seen, top.name, top)
				continue
			}
			for _, in := range fieldsOf(inner.Elts) {
				p.once(seen, top.name+"."+in.name, in)
			}
		}
	}
}

func (p *part) once(seen map[string]place, name string, f labelled) {
	at, ok := placeAt(f.field.Pos())
	if !ok {
		return
	}
	if first, again := seen[name]; again {
		p.findings = append(p.findings, at.finding(desired.CodeDuplicateName, "", name, fmt.Sprintf("is declared a second time; the first is at %s:%d:%d", first.path, first.line, first.column), "one place for each object"))
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
func (p *part) walk(c *Checker, root cue.Value, at place) {
	if isObject(root) {
		p.take(c, root, firstPlace(root, at))
		return
	}
	for name, v := range fields(root) {
		switch {
		case len(p.findings) >= mostFindings:
			return
		case v.IncompleteKind() == cue.ListKind:
			p.takeList(c, v, at)
		case v.IncompleteKind() == cue.StructKind && isObject(v):
			p.take(c, v, placeOf(v, at))
		case v.IncompleteKind() == cue.StructKind:
			p.takeStruct(c, name, v, placeOf(v, at))
		default:
			p.failAt(desired.CodeLooseValue, placeOf(v, at), name, "is "+kindName(v)+", which declares nothing", "an object, a list or a struct of objects; helpers begin with _ or #")
		}
	}
}

func (p *part) takeList(c *Checker, v cue.Value, at place) {
	it, err := v.List()
	if err != nil {
		p.fail(evaluationFindings(desired.CodeCUEEvaluation, err, placeOf(v, at)))
		return
	}
	for it.Next() && len(p.findings) < mostFindings {
		p.take(c, it.Value(), placeOf(it.Value(), placeOf(v, at)))
	}
}

func (p *part) takeStruct(c *Checker, name string, v cue.Value, at place) {
	found := 0
	for _, inner := range fields(v) {
		p.take(c, inner, placeOf(inner, at))
		found++
	}
	// A choice that is not made has no fields, and must not look like none.
	if found == 0 && v.Validate(cue.Concrete(true)) != nil {
		p.failAt(desired.CodeNotConcrete, at, name, "could be one of several values", "one value")
	}
}

func (p *part) take(c *Checker, v cue.Value, at place) {
	p.keep(c.check(v, at))
}

// isObject tells an object from a struct of objects, also when the author
// forgot its kind.
func isObject(v cue.Value) bool {
	for _, name := range []string{"kind", "apiVersion", "metadata", "spec"} {
		if v.LookupPath(cue.MakePath(cue.Str(name))).Exists() {
			return true
		}
	}
	return false
}

// fields lists the ordinary fields in the order of the files.
func fields(v cue.Value) func(yield func(string, cue.Value) bool) {
	return func(yield func(string, cue.Value) bool) {
		it, err := v.Fields()
		if err != nil {
			return
		}
		for it.Next() {
			if !yield(it.Selector().Unquoted(), it.Value()) {
				return
			}
		}
	}
}

// firstPlace is where a file that is one whole object begins.
func firstPlace(root cue.Value, at place) place {
	var places []place
	for _, v := range fields(root) {
		if p, ok := placeAt(v.Pos()); ok {
			places = append(places, p)
		}
	}
	if len(places) == 0 {
		return at
	}
	return slices.MinFunc(places, func(a, b place) int {
		if a.path != b.path {
			return strings.Compare(a.path, b.path)
		}
		return a.line - b.line
	})
}
